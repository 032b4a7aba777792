#include "base/testing/manual_clock.h"

namespace paddleop::testing {

ManualClock::ManualClock(std::chrono::system_clock::time_point wall) : wall_(wall) {}

std::chrono::steady_clock::time_point ManualClock::Now() const {
  std::lock_guard lock(mutex_);
  return now_;
}

std::chrono::system_clock::time_point ManualClock::WallNow() const {
  std::lock_guard lock(mutex_);
  return wall_;
}

bool ManualClock::SleepFor(const Context& ctx, Duration duration) {
  std::unique_lock lock(mutex_);
  if (ctx.Stopped()) return false;
  if (auto_advance_) {
    now_ += duration;
    wall_ += std::chrono::duration_cast<std::chrono::system_clock::duration>(duration);
    changed_.notify_all();
    return true;
  }
  const auto end = now_ + duration;
  ++sleepers_;
  changed_.notify_all();
  const bool slept = changed_.wait(lock, ctx.stop(), [&] { return now_ >= end; });
  --sleepers_;
  changed_.notify_all();
  return slept;
}

void ManualClock::Advance(Duration duration) {
  std::lock_guard lock(mutex_);
  now_ += duration;
  wall_ += std::chrono::duration_cast<std::chrono::system_clock::duration>(duration);
  changed_.notify_all();
}

void ManualClock::WaitForSleepers(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sleepers_ >= count; });
}

void ManualClock::set_auto_advance(bool on) {
  std::lock_guard lock(mutex_);
  auto_advance_ = on;
}

}  // namespace paddleop::testing
