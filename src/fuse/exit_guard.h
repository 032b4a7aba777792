#pragma once

#include <chrono>
#include <stop_token>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"

namespace paddleop::fuse {

// Ends the process if it does not end by itself in time: once armed, the guard exits with an error
// unless it is destroyed first. A store or a disk that hangs must not make a mount that cannot be
// ended; so a guard is made before all that may wait for one, and destroyed after it.
class ExitGuard {
 public:
  ExitGuard(std::chrono::milliseconds limit, const Logger& log);
  // Only the first counts. Needs nothing that may be lacking by then, such as another thread.
  void Arm();
  std::chrono::milliseconds limit() const { return limit_; }

 private:
  void Run(const std::stop_token& stop);

  const std::chrono::milliseconds limit_;
  const Logger& log_;
  Mutex mutex_;
  CondVar changed_;
  bool armed_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace paddleop::fuse
