#include "redis/url.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>

#include "base/posix.h"
#include "net/url.h"

namespace paddleop::redis {
namespace {

using std::chrono::milliseconds;

template <class T>
Result<T> ParseNumber(std::string_view name, std::string_view text, T least) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least) {
    return Fail(Code::kInvalid, "{} \"{}\" is no number from {} on", name, text, least);
  }
  return value;
}

// Go's notation, as the official client reads it: numbers with units, "1m30s".
Result<milliseconds> ParseDuration(std::string_view name, std::string_view text) {
  const auto bad = [&] {
    return Fail(Code::kInvalid, "{} \"{}\" is no duration such as 30s or 500ms", name, text);
  };
  double total = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    double number = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || !(number >= 0)) return bad();
    rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
    const std::string_view unit = rest.substr(0, rest.find_first_of("0123456789."));
    rest.remove_prefix(unit.size());
    if (unit == "h") {
      total += number * 3'600'000;
    } else if (unit == "m") {
      total += number * 60'000;
    } else if (unit == "s") {
      total += number * 1'000;
    } else if (unit == "ms") {
      total += number;
    } else {
      return bad();
    }
  }
  constexpr double kMost = 7 * 24 * 3'600'000.0;
  if (total < 1 || total > kMost) return bad();
  return milliseconds(static_cast<milliseconds::rep>(total));
}

// Takes one query option. `name` has dashes.
Result<void> TakeOption(PoolOptions& options, const std::string& name, const std::string& value) {
  ConnectionOptions& connection = options.connection;
  const auto duration = [&](auto& field) -> Result<void> {
    ASSIGN_OR_RETURN(field, ParseDuration(name, value));
    return {};
  };
  if (name == "read-timeout") return duration(connection.read_timeout);
  if (name == "write-timeout") return duration(connection.write_timeout);
  if (name == "dial-timeout") return duration(connection.connect_timeout);
  if (name == "min-retry-backoff") {
    RETURN_IF_ERROR(duration(options.retry.initial));
    options.reconnect.initial = options.retry.initial;
    return {};
  }
  if (name == "max-retry-backoff") {
    RETURN_IF_ERROR(duration(options.retry.maximum));
    options.reconnect.maximum = options.retry.maximum;
    return {};
  }
  if (name == "db") {
    ASSIGN_OR_RETURN(connection.database, ParseNumber(name, value, 0));
    return {};
  }
  if (name == "pool-size") {
    ASSIGN_OR_RETURN(options.max_connections, ParseNumber<std::size_t>(name, value, 1));
    return {};
  }
  if (name == "client-name") {
    connection.client_name = value;
    return {};
  }
  if (name == "route-read" || name.starts_with("client-cache")) return {};

  const bool is_tls = name.starts_with("tls-") || name == "insecure-skip-verify";
  if (is_tls && !connection.use_tls) {
    return Fail(Code::kInvalid, "option {} needs rediss:// instead of redis://", name);
  }
  if (name == "tls-ca-cert-file") {
    connection.tls.ca_file = value;
  } else if (name == "tls-cert-file") {
    connection.tls.cert_file = value;
  } else if (name == "tls-key-file") {
    connection.tls.key_file = value;
  } else if (name == "tls-server-name") {
    connection.tls.server_name = value;
  } else if (name == "insecure-skip-verify") {
    connection.tls.insecure_skip_verify = !value.empty();
  } else {
    return Fail(Code::kInvalid, "option {} is unknown", name);
  }
  return {};
}

Result<void> TakeAddress(ConnectionOptions& connection, const net::Url& url) {
  if (url.scheme == "unix") {
    if (!url.host.empty()) {
      return Fail(Code::kInvalid, "write unix:///absolute/path: \"{}\" stands where a host would",
                  url.host);
    }
    if (url.path.size() < 2) return Fail(Code::kInvalid, "the path of the unix socket is missing");
    connection.unix_socket = url.path;
    return {};
  }
  if (url.host.contains(',')) {
    return Fail(Code::kNotSupported,
                "several hosts mean Redis Cluster or Sentinel, which are not supported yet; use a "
                "standalone primary");
  }
  if (url.host.empty()) return Fail(Code::kInvalid, "the host is missing");
  connection.host = url.host;
  connection.port = url.port.value_or(6379);
  if (url.path.size() > 1) {
    ASSIGN_OR_RETURN(connection.database,
                     ParseNumber("database", std::string_view(url.path).substr(1), 0));
  }
  return {};
}

}  // namespace

Result<PoolOptions> ParseRedisUrl(std::string_view text) {
  ASSIGN_OR_RETURN(const net::Url url, net::ParseUrl(text));
  if (url.scheme != "redis" && url.scheme != "rediss" && url.scheme != "unix") {
    return Fail(Code::kInvalid, "URL {}: the scheme must be redis, rediss or unix", url.Redacted());
  }
  PoolOptions options;
  ConnectionOptions& connection = options.connection;
  connection.use_tls = url.scheme == "rediss";
  connection.user = url.user;
  connection.password = url.password;
  if (connection.password.empty()) connection.password = Secret(GetEnv("REDIS_PASSWORD"));

  const auto read = [&]() -> Result<void> {
    RETURN_IF_ERROR(TakeAddress(connection, url));
    for (const auto& [key, value] : url.query) {
      std::string name = key;
      std::ranges::replace(name, '_', '-');
      RETURN_IF_ERROR(TakeOption(options, name, value));
    }
    return {};
  };
  if (auto done = read(); !done) {
    return std::unexpected(std::move(done).error().Wrap(fmt::format("URL {}", url.Redacted())));
  }
  return options;
}

}  // namespace paddleop::redis
