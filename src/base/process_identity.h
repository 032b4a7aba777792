#pragma once

#include <sys/types.h>

#include <cstdint>

namespace paddleop {

// A process known by more than its number, which the kernel gives to others later: for files that
// outlive the one who wrote them.
struct ProcessIdentity {
  pid_t pid = -1;
  std::uint64_t start_ticks = 0;  // since the machine started; field 22 of /proc/PID/stat

  // Of a process that runs now; `start_ticks` is 0 if there is none.
  static ProcessIdentity Of(pid_t pid);
  // Is it still there? A zombie is not.
  bool Alive() const;
  bool operator==(const ProcessIdentity&) const = default;
};

}  // namespace paddleop
