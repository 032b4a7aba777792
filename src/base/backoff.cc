#include "base/backoff.h"

#include <algorithm>
#include <cmath>

namespace paddleop {

Backoff::Backoff(const BackoffOptions& options, Clock& clock)
    : options_(options), clock_(&clock), random_(std::random_device{}()) {}

Clock::Duration Backoff::NextDelay() {
  const double base = static_cast<double>(options_.initial.count()) *
                      std::pow(options_.factor, std::min(attempts_, 60));
  const double capped = std::min(base, static_cast<double>(options_.maximum.count()));
  std::uniform_real_distribution<double> spread(1.0 - options_.jitter, 1.0 + options_.jitter);
  return Clock::Duration(static_cast<Clock::Duration::rep>(capped * spread(random_)));
}

bool Backoff::Sleep(const Context& ctx) {
  if (options_.max_attempts > 0 && attempts_ >= options_.max_attempts) return false;
  return clock_->SleepFor(ctx, Take());
}

Clock::Duration Backoff::Take() {
  const auto delay = NextDelay();
  ++attempts_;
  return delay;
}

void Backoff::Reset() { attempts_ = 0; }

}  // namespace paddleop
