#include "base/clock.h"

#include <condition_variable>
#include <mutex>

namespace paddleop {
namespace {

class SystemClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::now();
  }
  std::chrono::system_clock::time_point WallNow() const override {
    return std::chrono::system_clock::now();
  }
  bool SleepFor(const Context& ctx, Duration duration) override {
    if (ctx.Stopped()) return false;
    const auto end = Now() + duration;
    if (end > ctx.deadline()) return false;
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait_until(lock, ctx.stop(), end, [] { return false; });
    return !ctx.Stopped();
  }
};

}  // namespace

Clock& Clock::System() {
  static SystemClock clock;
  return clock;
}

}  // namespace paddleop
