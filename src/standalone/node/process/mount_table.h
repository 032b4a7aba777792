// What is mounted where, as /proc/PID/mountinfo tells it (proc_pid_mountinfo(5)).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paddleop::standalone::node {

struct MountedAt {
  std::string path;    // as the process sees it
  std::string device;  // "0:42": which file system

  bool operator==(const MountedAt&) const = default;
};

// In the order of the table: a later one at the same path covers an earlier one.
using MountTable = std::vector<MountedAt>;

MountTable ParseMountTable(std::string_view mountinfo);
// kNotFound if there is no such process.
Result<MountTable> ReadMountTable(pid_t pid);

}  // namespace paddleop::standalone::node
