#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/posix.h"
#include "base/status.h"

namespace paddleop::testing {

// A real server, run by tests/peers/peer for as long as this object lives. If the test dies, the
// peer sees its standard input close and stops by itself.
class Peer {
 public:
  // Starts the peer and waits until it answers; what it needs is fetched and built on first use.
  static Result<Peer> Start(std::string_view name, const std::vector<std::string>& args = {});
  // The folder with a peer's programs, fetched on first use.
  static Result<std::string> Path(std::string_view name);

  Peer(Peer&&) noexcept;
  Peer& operator=(Peer&&) noexcept;
  ~Peer();

  // A member of the peer's description, e.g. Get("port"); numbers come as text.
  std::string Get(const std::string& key) const;
  const nlohmann::json& description() const { return *description_; }

  // "kill redis", "start redis", "pause minio", ...: see tests/peers/README.md.
  Result<void> Command(std::string_view line);

 private:
  Peer() = default;
  void Stop();

  pid_t pid_ = -1;
  UniqueFd to_;
  UniqueFd from_;
  std::unique_ptr<nlohmann::json> description_;
};

struct ProcessResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs a program to its end; kDeadline (and the program is killed) if that takes too long.
Result<ProcessResult> RunProcess(const std::vector<std::string>& argv,
                                 const std::vector<std::string>& extra_environment = {},
                                 std::chrono::seconds timeout = std::chrono::seconds(120),
                                 std::string_view input = {});

// The root of the source tree, and the folder with the built programs.
std::string SourceDir();
std::string BinDir();

// Waits until `condition` holds; false after `timeout`. For state that another process changes.
template <class Condition>
bool WaitFor(Condition condition, std::chrono::milliseconds timeout = std::chrono::seconds(30),
             std::chrono::milliseconds interval = std::chrono::milliseconds(20));

void SleepBriefly(std::chrono::milliseconds duration);

template <class Condition>
bool WaitFor(Condition condition, std::chrono::milliseconds timeout,
             std::chrono::milliseconds interval) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    SleepBriefly(interval);
  }
  return true;
}

}  // namespace paddleop::testing
