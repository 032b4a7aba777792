#include "volume/chunk/buffer_budget.h"

#include <algorithm>
#include <utility>

namespace paddleop::volume {

BufferBudget::Lease& BufferBudget::Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = other.bytes_;
  }
  return *this;
}

void BufferBudget::Lease::Release() {
  if (budget_ == nullptr) return;
  {
    MutexLock lock(budget_->mutex_);
    budget_->used_ -= bytes_;
    budget_->freed_.notify_all();
  }
  budget_ = nullptr;
}

BufferBudget::BufferBudget(std::uint64_t bytes) : total_(bytes) {}

Result<BufferBudget::Lease> BufferBudget::Acquire(const Context& ctx, std::uint64_t bytes) {
  const std::uint64_t wanted = std::min(bytes, total_);
  MutexLock lock(mutex_);
  auto free = [&]() REQUIRES(mutex_) { return used_ + wanted <= total_; };
  const bool got = ctx.has_deadline() ? freed_.wait_until(lock, ctx.stop(), ctx.deadline(), free)
                                      : freed_.wait(lock, ctx.stop(), free);
  if (!got) {
    RETURN_IF_ERROR(ctx.Check());
    return Fail(Code::kDeadline, "no buffer of {} bytes became free in time", bytes);
  }
  used_ += wanted;
  return Lease(this, wanted);
}

Result<void> BufferBudget::Extend(const Context& ctx, Lease& lease, std::uint64_t bytes) {
  ASSIGN_OR_RETURN(Lease more, Acquire(ctx, bytes));
  lease.budget_ = this;
  lease.bytes_ += std::exchange(more.bytes_, 0);
  more.budget_ = nullptr;
  return {};
}

std::uint64_t BufferBudget::used() const {
  MutexLock lock(mutex_);
  return used_;
}

}  // namespace paddleop::volume
