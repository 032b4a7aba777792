#include "redis/internal/key_locks.h"

#include <functional>

namespace paddleop::redis::internal {

Result<KeyLocks::Hold> KeyLocks::Lock(const Context& ctx, std::string_view key) {
  Stripe& stripe = stripes_[std::hash<std::string_view>{}(key) % stripes_.size()];
  MutexLock lock(stripe.mutex);
  const auto free = [&stripe]() REQUIRES(stripe.mutex) { return !stripe.held; };
  if (!free()) {
    // A wait without a deadline would still end: whoever holds the lock has one for each call.
    const auto until = Context::Clock::now() + ctx.Remaining();
    stripe.released.wait_until(lock, ctx.stop(), until, free);
  }
  if (stripe.held) {
    RETURN_IF_ERROR(ctx.Check());
    return Fail(Code::kDeadline, "another transaction on the same key did not end");
  }
  stripe.held = true;
  return Hold(&stripe);
}

KeyLocks::Hold::~Hold() {
  if (stripe_ == nullptr) return;
  const MutexLock lock(stripe_->mutex);
  stripe_->held = false;
  stripe_->released.notify_one();
}

}  // namespace paddleop::redis::internal
