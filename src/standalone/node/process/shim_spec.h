// What a container's shim is told: the one contract between the agent and the processes it starts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace paddleop::standalone::node {

// A file or directory of this machine that shows up at another path inside a container.
struct BindMount {
  std::string source;
  std::string target;
  bool read_only = false;

  bool operator==(const BindMount&) const = default;
};

struct ShimSpec {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;
  std::string cwd;
  std::string directory;  // of this attempt: state.json, exit.json and log are written there
  std::size_t log_limit = 64 << 20;  // bytes of the log; then it becomes log.1 and a new one begins

  // Own processes, mounts and host name. Everything below needs it.
  bool namespaces = false;
  std::string network;     // file that holds the pod's network; empty: the machine's own
  std::string hostname;    // empty: the machine's own
  std::string hosts_file;  // shown as /etc/hosts; empty: the machine's own
  std::vector<BindMount> mounts;
  std::string data_dir;  // mounts below it are other pods' business
  std::string stage;     // an empty directory, for a root of our own if one is needed

  bool operator==(const ShimSpec&) const = default;
};

std::string ToText(const ShimSpec& spec);
Result<ShimSpec> ShimSpecFromText(std::string_view text);

// A command to run beside a container's, where that one runs.
struct ExecSpec {
  int pid = 0;  // the container's first process
  bool namespaces = false;
  bool tty = false;
  std::vector<std::string> argv;
};

// Mounts of a container to be made again from what is at their sources now.
struct RemountSpec {
  int pid = 0;  // the container's first process
  std::vector<BindMount> mounts;
};

std::string ToText(const RemountSpec& spec);
Result<RemountSpec> RemountSpecFromText(std::string_view text);

std::string ToText(const ExecSpec& spec);
Result<ExecSpec> ExecSpecFromText(std::string_view text);

}  // namespace paddleop::standalone::node
