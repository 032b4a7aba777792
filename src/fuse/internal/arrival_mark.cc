#include "fuse/internal/arrival_mark.h"

namespace paddleop::fuse {

void ArrivalMark::ExpectFrom(pid_t thread) {
  MutexLock lock(mutex_);
  thread_ = thread;
}

void ArrivalMark::Opened(pid_t thread, std::uint64_t handle) {
  MutexLock lock(mutex_);
  if (thread == thread_) open_.insert(handle);
}

void ArrivalMark::Released(std::uint64_t handle) {
  MutexLock lock(mutex_);
  if (open_.erase(handle) > 0) changed_.notify_all();
}

bool ArrivalMark::Wait(const Context& ctx) {
  MutexLock lock(mutex_);
  return changed_.wait_until(lock, ctx.stop(), ctx.deadline(),
                             [&]() REQUIRES(mutex_) { return open_.empty(); });
}

}  // namespace paddleop::fuse
