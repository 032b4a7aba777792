#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>

#include "base/context.h"
#include "base/mutex.h"

namespace paddleop::fuse {

// Tells when all has come that the kernel sent by itself before a certain moment. Such requests
// come in the order in which they were made: the pages that it writes back, and the release of a
// directory that somebody has closed after that.
//
// Thread-safe.
class ArrivalMark {
 public:
  // The thread (as gettid) that opens and closes a directory of the mount as the mark.
  void ExpectFrom(pid_t thread);
  // What happened to the mount's directories.
  void Opened(pid_t thread, std::uint64_t handle);
  void Released(std::uint64_t handle);
  // Until nothing that the thread opened is open. False if the caller's time ended first.
  bool Wait(const Context& ctx);

 private:
  Mutex mutex_;
  CondVar changed_;
  pid_t thread_ GUARDED_BY(mutex_) = -1;
  std::set<std::uint64_t> open_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::fuse
