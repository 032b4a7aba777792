#include "redis/options.h"

namespace paddleop::redis {
namespace {

// hiredis counts some lengths in int.
constexpr std::size_t kMaxString = std::size_t{1} << 30;

}  // namespace

std::string ConnectionOptions::Address() const {
  if (!unix_socket.empty()) return unix_socket;
  if (host.contains(':')) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

Result<void> ConnectionOptions::Validate() const {
  if (unix_socket.empty() && host.empty()) return Fail(Code::kInvalid, "redis host is empty");
  if (unix_socket.empty() && port == 0) return Fail(Code::kInvalid, "redis port is 0");
  if (database < 0) return Fail(Code::kInvalid, "redis database {} is negative", database);
  if (!user.empty() && password.empty()) {
    return Fail(Code::kInvalid, "redis user {} needs a password (in the URL or REDIS_PASSWORD)",
                user);
  }
  for (const char c : client_name) {
    if (c < '!' || c > '~') {
      return Fail(Code::kInvalid, "redis client name may hold no spaces or special characters");
    }
  }
  for (const auto timeout : {connect_timeout, read_timeout, write_timeout, default_timeout}) {
    if (timeout.count() <= 0) return Fail(Code::kInvalid, "redis timeouts must be positive");
  }
  if (limits.max_string_bytes > kMaxString) {
    return Fail(Code::kInvalid, "redis max_string_bytes {} is over {}", limits.max_string_bytes,
                kMaxString);
  }
  return {};
}

}  // namespace paddleop::redis
