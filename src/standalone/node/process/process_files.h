// The files by which a shim and the agents of its lifetime know of each other.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/process_identity.h"
#include "base/status.h"

namespace paddleop::standalone::node {

using WallTime = std::chrono::system_clock::time_point;

// state.json: who runs.
struct ProcessState {
  ProcessIdentity shim;
  pid_t first = -1;  // the container's first process
  WallTime started{};
};

// exit.json: how it ended.
struct ProcessExit {
  int code = 0;
  WallTime finished{};
  bool start_failed = false;  // the command never ran; `message` says why
  std::string message;
};

// Only the PIDs need be given; the rest is filled in.
Result<void> WriteState(const std::string& directory, ProcessState state);
Result<void> WriteExit(const std::string& directory, const ProcessExit& exit);
// nullopt if there is no such file, or it makes no sense.
std::optional<ProcessState> ReadState(const std::string& directory);
std::optional<ProcessExit> ReadExit(const std::string& directory);

}  // namespace paddleop::standalone::node
