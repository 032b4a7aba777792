#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace paddleop {

using LogFields = std::vector<std::pair<std::string, std::string>>;

// What a call that may block carries with it: a request to stop, a deadline, and fields for its log
// lines. Cheap to copy; a child's deadline never exceeds its parent's.
class Context {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  // No deadline, never stopped. For main() and tests; everything else gets one from its caller.
  static Context Background() { return {}; }

  Context WithStop(std::stop_token stop) const;
  Context WithDeadline(TimePoint deadline) const;
  Context WithTimeout(Clock::duration timeout) const;
  // Adds a field to every log line written under this context.
  Context WithField(std::string key, std::string value) const;

  const std::stop_token& stop() const { return stop_; }
  TimePoint deadline() const { return deadline_; }
  bool has_deadline() const { return deadline_ != TimePoint::max(); }
  // How long until the deadline: never negative; `most` if there is none or it is further away.
  Clock::duration Remaining(Clock::duration most = std::chrono::hours(24)) const;
  const LogFields& fields() const;

  bool Stopped() const { return stop_.stop_requested(); }
  bool Expired() const { return has_deadline() && Clock::now() >= deadline_; }
  // kCancelled or kDeadline if the caller no longer waits for us.
  Result<void> Check() const;

 private:
  std::stop_token stop_;
  TimePoint deadline_ = TimePoint::max();
  std::shared_ptr<const LogFields> fields_;
};

}  // namespace paddleop
