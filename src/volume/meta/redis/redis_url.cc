#include "volume/meta/redis/redis_url.h"

#include <charconv>
#include <cstdlib>

#include "base/posix.h"
#include "net/url.h"

namespace paddleop::volume {
namespace {

using std::chrono::milliseconds;

Result<int> ParseDatabase(std::string_view text) {
  int database = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), database);
  if (error != std::errc() || end != text.data() + text.size() || database < 0) {
    return Fail(Code::kInvalid, "'{}' is no database number", text);
  }
  return database;
}

// "30", "30s", "500ms", "1m".
Result<milliseconds> ParseTimeout(const std::string& name, std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  std::int64_t scale = 0;
  if (unit.empty() || unit == "s") scale = 1000;
  if (unit == "ms") scale = 1;
  if (unit == "m") scale = 60'000;
  if (error != std::errc() || number <= 0 || scale == 0 || number > 86'400'000 / scale) {
    return Fail(Code::kInvalid, "option {}: '{}' is no time like 30s, 500ms or 1m", name, text);
  }
  return milliseconds(number * scale);
}

Result<void> ApplyOption(redis::ConnectionOptions& options, const std::string& name,
                         const std::string& value) {
  if (name == "read-timeout") {
    ASSIGN_OR_RETURN(options.read_timeout, ParseTimeout(name, value));
  } else if (name == "write-timeout") {
    ASSIGN_OR_RETURN(options.write_timeout, ParseTimeout(name, value));
  } else if (name == "dial-timeout") {
    ASSIGN_OR_RETURN(options.connect_timeout, ParseTimeout(name, value));
  } else if (name == "db") {
    ASSIGN_OR_RETURN(options.database, ParseDatabase(value));
  } else if (name == "insecure-skip-verify") {
    options.tls.insecure_skip_verify = value.empty() || value == "true" || value == "1";
  } else if (name == "tls-server-name") {
    options.tls.server_name = value;
  } else if (name == "tls-cert-file") {
    options.tls.cert_file = value;
  } else if (name == "tls-key-file") {
    options.tls.key_file = value;
  } else if (name == "tls-ca-cert-file") {
    options.tls.ca_file = value;
  } else if (name != "min-retry-backoff" && name != "max-retry-backoff" &&
             !name.starts_with("client-cache")) {
    // Those three tune the official client and change nothing that others can see.
    return Fail(Code::kInvalid, "option '{}' is not known", name);
  }
  return {};
}

Result<Secret> PasswordFromEnvironment() {
  for (const char* name : {"REDIS_PASSWORD", "META_PASSWORD"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody calls setenv
    if (value != nullptr && *value != '\0') return Secret(value);
  }
  const char* file = std::getenv("META_PASSWORD_FILE");  // NOLINT(concurrency-mt-unsafe): as above
  if (file == nullptr || *file == '\0') return Secret();
  auto text = ReadFile(file);
  if (!text) return std::unexpected(std::move(text).error().Wrap("META_PASSWORD_FILE"));
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  return Secret(*std::move(text));
}

Result<redis::PoolOptions> OptionsOf(const net::Url& url) {
  redis::PoolOptions pool;
  redis::ConnectionOptions& options = pool.connection;
  if (url.host.contains(',')) {
    return Fail(
        Code::kNotSupported,
        "several hosts mean Redis Sentinel or Cluster, which are not supported yet: name the "
        "primary alone");
  }
  options.user = url.user;
  options.password = url.password;
  if (url.scheme == "unix") {
    options.unix_socket = url.host + url.path;
    if (options.unix_socket.empty()) return Fail(Code::kInvalid, "unix:// needs the socket's path");
  } else {
    if (url.scheme != "redis" && url.scheme != "rediss") {
      return Fail(Code::kInvalid, "scheme '{}' is not redis, rediss or unix", url.scheme);
    }
    options.use_tls = url.scheme == "rediss";
    if (!url.host.empty()) options.host = url.host;
    options.port = url.port.value_or(6379);
    const std::string_view path = url.path;
    if (path.size() > 1) {
      ASSIGN_OR_RETURN(options.database, ParseDatabase(path.substr(1)));
    }
  }
  for (const auto& [name, value] : url.query) {
    RETURN_IF_ERROR(ApplyOption(options, name, value));
  }
  if (options.password.empty()) {
    ASSIGN_OR_RETURN(options.password, PasswordFromEnvironment());
  }
  RETURN_IF_ERROR(pool.Validate());
  return pool;
}

}  // namespace

Result<redis::PoolOptions> ParseRedisUrl(const std::string& text) {
  ASSIGN_OR_RETURN(const net::Url url, net::ParseUrl(text));
  auto options = OptionsOf(url);
  if (!options) {
    return std::unexpected(
        std::move(options).error().Wrap(fmt::format("metadata URL '{}'", RedactUrl(text))));
  }
  return options;
}

}  // namespace paddleop::volume
