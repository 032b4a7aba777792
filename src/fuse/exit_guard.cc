#include "fuse/exit_guard.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/thread_pool.h"

namespace paddleop::fuse {

ExitGuard::ExitGuard(std::chrono::milliseconds limit, const Logger& log)
    : limit_(limit), log_(log), thread_([this](const std::stop_token& stop) {
        SetThreadName("exit-guard");
        Run(stop);
      }) {}

void ExitGuard::Arm() {
  MutexLock lock(mutex_);
  armed_ = true;
  changed_.notify_all();
}

void ExitGuard::Run(const std::stop_token& stop) {
  {
    MutexLock lock(mutex_);
    if (!changed_.wait(lock, stop, [&]() REQUIRES(mutex_) { return armed_; })) return;
  }
  const Context ctx = Context::Background().WithStop(stop);
  if (!Clock::System().SleepFor(ctx, limit_)) return;
  log_.Error(ctx, "the mount did not end in time; written data that was not synced may be lost",
             {{"milliseconds", limit_.count()}});
  ::_exit(1);
}

}  // namespace paddleop::fuse
