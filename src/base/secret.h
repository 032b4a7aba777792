#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace paddleop {

// A password, key or token. It prints as *** wherever fmt or the log formats it; whoever really
// needs the bytes says so with Reveal().
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}

  const std::string& Reveal() const { return value_; }
  bool empty() const { return value_.empty(); }
  bool operator==(const Secret&) const = default;

 private:
  std::string value_;
};

// The URL without its password: redis://user:pw@host/1 becomes redis://user:***@host/1. Also masks
// values of query parameters whose names speak of secrets.
std::string RedactUrl(std::string_view url);

}  // namespace paddleop

template <>
struct fmt::formatter<paddleop::Secret> : fmt::formatter<std::string_view> {
  template <class FormatContext>
  auto format(const paddleop::Secret& secret, FormatContext& ctx) const {
    return fmt::formatter<std::string_view>::format(secret.empty() ? "" : "***", ctx);
  }
};
