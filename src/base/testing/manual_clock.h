#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace paddleop::testing {

// A clock that moves only when told to. Sleepers wake when Advance() passes their end.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::chrono::system_clock::time_point wall =
                           std::chrono::system_clock::time_point(std::chrono::seconds(1700000000)));

  std::chrono::steady_clock::time_point Now() const override;
  std::chrono::system_clock::time_point WallNow() const override;
  bool SleepFor(const Context& ctx, Duration duration) override;

  void Advance(Duration duration);
  // Blocks until `count` threads are inside SleepFor, so that a test advances only after they
  // arrived.
  void WaitForSleepers(int count);
  // In this mode a sleep returns at once and moves the clock: for code whose delays are the point.
  void set_auto_advance(bool on);

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::chrono::steady_clock::time_point now_{};
  std::chrono::system_clock::time_point wall_;
  int sleepers_ = 0;
  bool auto_advance_ = false;
};

}  // namespace paddleop::testing
