#include "fuse/exit_guard.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/thread_pool.h"

namespace paddleop::fuse {

void ExitGuard::Arm() {
  if (thread_.joinable()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    SetThreadName("exit-guard");
    const Context ctx = Context::Background().WithStop(stop);
    if (!Clock::System().SleepFor(ctx, limit_)) return;
    log_.Error(ctx, "the mount did not end in time; written data that was not synced may be lost",
               {{"milliseconds", limit_.count()}});
    ::_exit(1);
  });
}

}  // namespace paddleop::fuse
