#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/status.h"
#include "fuse/internal/arrival_mark.h"

namespace paddleop::fuse {

// What programs have written and the kernel still holds when a mount is told to end: pages of
// mappings, and with writeback_cache of plain writes. A mount that is detached does not bring them.
//
// The kernel may hold up the thread in here until the session is gone, so this object goes after
// it.
class LastSync {
 public:
  // `minor` is the mount's device, `mark` that of what is mounted there; it outlives this object.
  LastSync(std::string mount_point, unsigned minor, ArrivalMark& mark, const Logger& log);

  // Has the kernel pass on what it holds, and returns when it has come or the limit is over. Once,
  // while the session serves, and from none of its threads.
  void Run(std::chrono::milliseconds limit);

 private:
  void Work(const std::stop_token& stop);
  Result<void> Sync(const Context& ctx);
  Result<UniqueFd> OpenRoot() const;

  const std::string mount_point_;
  const unsigned minor_;
  ArrivalMark& mark_;
  const Logger& log_;
  Mutex mutex_;
  CondVar changed_;
  std::chrono::steady_clock::time_point deadline_ GUARDED_BY(mutex_){};  // when it is asked for
  bool done_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // started early: at the end there may be none to have
};

}  // namespace paddleop::fuse
