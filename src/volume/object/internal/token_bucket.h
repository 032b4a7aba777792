#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace paddleop::volume::object::internal {

// Counts bytes against a rate. Reserving more than there is makes a debt, and the time to wait
// until it is paid; so pieces larger than the bucket pass too, and in the order they came.
//
// Thread-safe.
class TokenBucket {
 public:
  // Holds up to a tenth of a second's worth: a pause cannot be made up for by a long burst.
  TokenBucket(double bytes_per_second, Clock& clock);

  // Takes `bytes` and returns how long to wait before using them.
  Clock::Duration Reserve(std::uint64_t bytes);
  // Gives back what was reserved and not used.
  void Return(std::uint64_t bytes);

 private:
  void Refill() REQUIRES(mutex_);

  const double rate_;
  const double capacity_;
  Clock& clock_;
  Mutex mutex_;
  double tokens_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point updated_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume::object::internal
