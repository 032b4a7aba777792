#include "volume/object/internal/token_bucket.h"

#include <algorithm>

namespace paddleop::volume::object::internal {

TokenBucket::TokenBucket(double bytes_per_second, Clock& clock)
    : rate_(bytes_per_second),
      capacity_(bytes_per_second / 10),
      clock_(clock),
      tokens_(capacity_),
      updated_(clock.Now()) {}

void TokenBucket::Refill() {
  const auto now = clock_.Now();
  const std::chrono::duration<double> passed = now - updated_;
  tokens_ = std::min(capacity_, tokens_ + passed.count() * rate_);
  updated_ = now;
}

Clock::Duration TokenBucket::Reserve(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  Refill();
  tokens_ -= static_cast<double>(bytes);
  if (tokens_ >= 0) return {};
  return std::chrono::duration_cast<Clock::Duration>(
      std::chrono::duration<double>(-tokens_ / rate_));
}

void TokenBucket::Return(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  tokens_ = std::min(capacity_, tokens_ + static_cast<double>(bytes));
}

}  // namespace paddleop::volume::object::internal
