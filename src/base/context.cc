#include "base/context.h"

#include <algorithm>

namespace paddleop {

Context Context::WithStop(std::stop_token stop) const {
  Context child = *this;
  child.stop_ = std::move(stop);
  return child;
}

Context Context::WithDeadline(TimePoint deadline) const {
  Context child = *this;
  child.deadline_ = std::min(deadline_, deadline);
  return child;
}

Context Context::WithTimeout(Clock::duration timeout) const {
  return WithDeadline(Clock::now() + timeout);
}

Context Context::WithField(std::string key, std::string value) const {
  auto fields = std::make_shared<LogFields>(this->fields());
  fields->emplace_back(std::move(key), std::move(value));
  Context child = *this;
  child.fields_ = std::move(fields);
  return child;
}

Context::Clock::duration Context::Remaining(Clock::duration most) const {
  if (!has_deadline()) return most;
  return std::clamp(deadline_ - Clock::now(), Clock::duration::zero(), most);
}

const LogFields& Context::fields() const {
  static const LogFields kNone;
  return fields_ ? *fields_ : kNone;
}

Result<void> Context::Check() const {
  if (Stopped()) return Fail(Code::kCancelled, "stopped");
  if (Expired()) return Fail(Code::kDeadline, "deadline exceeded");
  return {};
}

}  // namespace paddleop
