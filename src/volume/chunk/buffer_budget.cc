#include "volume/chunk/buffer_budget.h"

#include <algorithm>
#include <utility>

namespace paddleop::volume {

BufferBudget::Lease& BufferBudget::Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = other.bytes_;
    leaving_ = other.leaving_;
  }
  return *this;
}

void BufferBudget::Lease::Release() {
  if (budget_ == nullptr) return;
  {
    MutexLock lock(budget_->mutex_);
    budget_->used_ -= bytes_;
    if (leaving_) budget_->leaving_ -= bytes_;
    budget_->freed_.notify_all();
  }
  budget_ = nullptr;
  leaving_ = false;
}

void BufferBudget::Lease::SetLeaving(bool leaving) {
  if (budget_ == nullptr || leaving_ == leaving) return;
  MutexLock lock(budget_->mutex_);
  leaving_ = leaving;
  if (leaving) {
    budget_->leaving_ += bytes_;
  } else {
    budget_->leaving_ -= bytes_;
    budget_->freed_.notify_all();
  }
}

BufferBudget::BufferBudget(std::uint64_t bytes) : total_(bytes) {}

Result<BufferBudget::Lease> BufferBudget::Take(const Context& ctx, std::uint64_t bytes,
                                               bool holds_some) {
  const std::uint64_t wanted = std::min(bytes, total_);
  MutexLock lock(mutex_);
  const std::uint64_t turn = next_turn_++;
  if (!holds_some) waiting_.insert(turn);
  auto free = [&]() REQUIRES(mutex_) {
    return used_ + wanted <= total_ && (holds_some || *waiting_.begin() == turn);
  };
  auto ready = [&]() REQUIRES(mutex_) { return free() || (holds_some && leaving_ == 0); };
  const bool came = ctx.has_deadline() ? freed_.wait_until(lock, ctx.stop(), ctx.deadline(), ready)
                                       : freed_.wait(lock, ctx.stop(), ready);
  const bool got = free();
  if (!holds_some) {
    waiting_.erase(turn);
    if (!waiting_.empty()) freed_.notify_all();  // it is the turn of the next
  }
  if (!came) {
    RETURN_IF_ERROR(ctx.Check());
    return Fail(Code::kDeadline, "no buffer of {} bytes became free in time", bytes);
  }
  if (!got) return Lease();
  used_ += wanted;
  return Lease(this, wanted);
}

void BufferBudget::Add(Lease& lease, Lease more) {
  lease.budget_ = this;
  lease.bytes_ += std::exchange(more.bytes_, 0);
  more.budget_ = nullptr;
}

Result<BufferBudget::Lease> BufferBudget::Acquire(const Context& ctx, std::uint64_t bytes) {
  return Take(ctx, bytes, /*holds_some=*/false);
}

Result<void> BufferBudget::Extend(const Context& ctx, Lease& lease, std::uint64_t bytes) {
  ASSIGN_OR_RETURN(Lease more, Take(ctx, bytes, /*holds_some=*/false));
  Add(lease, std::move(more));
  return {};
}

Result<bool> BufferBudget::ExtendUnlessStuck(const Context& ctx, Lease& lease,
                                             std::uint64_t bytes) {
  ASSIGN_OR_RETURN(Lease more, Take(ctx, bytes, /*holds_some=*/true));
  if (more.budget_ == nullptr) return false;
  Add(lease, std::move(more));
  return true;
}

std::uint64_t BufferBudget::used() const {
  MutexLock lock(mutex_);
  return used_;
}

}  // namespace paddleop::volume
