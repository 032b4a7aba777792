#pragma once

#include <chrono>
#include <thread>

#include "base/log.h"

namespace paddleop::fuse {

// Ends the process if it does not end by itself in time: once armed, the guard exits with an error
// unless it is destroyed first. A store that hangs must not make a mount that cannot be ended.
class ExitGuard {
 public:
  explicit ExitGuard(const Logger& log) : log_(log) {}
  void Arm(std::chrono::seconds limit);

 private:
  const Logger& log_;
  std::jthread thread_;
};

}  // namespace paddleop::fuse
