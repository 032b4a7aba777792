#pragma once

#include <random>

#include "base/clock.h"

namespace paddleop {

struct BackoffOptions {
  Clock::Duration initial = std::chrono::milliseconds(50);
  Clock::Duration maximum = std::chrono::seconds(10);
  double factor = 2.0;
  double jitter = 0.25;  // each delay is drawn from [d*(1-jitter), d*(1+jitter)]
  int max_attempts = 0;  // sleeps before giving up; 0: only the deadline ends it
};

// Growing, jittered delays between attempts. One per operation; not thread-safe.
class Backoff {
 public:
  explicit Backoff(const BackoffOptions& options, Clock& clock = Clock::System());

  // Waits for the next delay. False when the caller stopped, its deadline would pass meanwhile, or
  // the attempts are used up.
  bool Sleep(const Context& ctx);
  // The delay the next Sleep() would take.
  Clock::Duration NextDelay();
  // The next delay, counted as taken, for callers that wait by other means.
  Clock::Duration Take();
  void Reset();
  int attempts() const { return attempts_; }

 private:
  BackoffOptions options_;
  Clock* clock_;
  std::minstd_rand random_;
  int attempts_ = 0;
};

}  // namespace paddleop
