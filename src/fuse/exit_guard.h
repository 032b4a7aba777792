#pragma once

#include <chrono>
#include <thread>

#include "base/log.h"

namespace paddleop::fuse {

// Ends the process if it does not end by itself in time: once armed, the guard exits with an error
// unless it is destroyed first. A store or a disk that hangs must not make a mount that cannot be
// ended; so a guard is made before all that may wait for one, and destroyed after it.
class ExitGuard {
 public:
  ExitGuard(std::chrono::milliseconds limit, const Logger& log) : limit_(limit), log_(log) {}
  // From one thread at a time. Only the first counts.
  void Arm();
  std::chrono::milliseconds limit() const { return limit_; }

 private:
  const std::chrono::milliseconds limit_;
  const Logger& log_;
  std::jthread thread_;
};

}  // namespace paddleop::fuse
