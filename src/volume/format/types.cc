#include "volume/format/types.h"

namespace paddleop::volume {

Timestamp Timestamp::From(std::chrono::system_clock::time_point time) {
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds);
  return {.seconds = seconds.count(), .nanos = static_cast<std::uint32_t>(rest.count())};
}

Result<void> ValidateName(std::string_view name) {
  if (name.size() > kMaxName) {
    return Fail(Code::kNameTooLong, "name of {} bytes: at most {} are allowed", name.size(),
                kMaxName);
  }
  if (name.empty()) return Fail(Code::kInvalid, "an entry needs a name");
  if (name == "." || name == "..") return Fail(Code::kInvalid, "'{}' is not a name", name);
  if (name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return Fail(Code::kInvalid, "a name holds neither '/' nor NUL");
  }
  return {};
}

}  // namespace paddleop::volume
