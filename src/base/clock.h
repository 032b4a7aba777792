#pragma once

#include <chrono>

#include "base/context.h"

namespace paddleop {

// Time as the code sees it, so that tests can move it by hand (testing/manual_clock.h).
// Thread-safe.
class Clock {
 public:
  using Duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;

  // For measuring and for deadlines.
  virtual std::chrono::steady_clock::time_point Now() const = 0;
  // For what people and files see.
  virtual std::chrono::system_clock::time_point WallNow() const = 0;
  // Waits. False if the caller stopped, or at once if its deadline lies before the end of the wait:
  // sleeping into a deadline helps nobody.
  virtual bool SleepFor(const Context& ctx, Duration duration) = 0;

  static Clock& System();
};

}  // namespace paddleop
