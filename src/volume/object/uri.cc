#include "volume/object/uri.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/crypto.h"

namespace paddleop::volume::object {
namespace {

bool IsHostCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ||
         c == ':' || c == '[' || c == ']' || c == ',';
}

// Whether `text` begins with a host and perhaps a port, up to '/' or its end.
bool BeginsWithHost(std::string_view text) {
  const std::string_view host = text.substr(0, text.find_first_of("/?"));
  return !host.empty() && std::all_of(host.begin(), host.end(), IsHostCharacter);
}

// "host:123": what looks like AK:SK before a '/' but is not.
bool IsHostAndPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos || colon + 1 == text.size()) return false;
  const std::string_view port = text.substr(colon + 1);
  return port.size() <= 5 &&
         std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The length of the "AK:SK" in front of an '@', or nullopt if the URI carries no keys.
std::optional<std::size_t> FindKeys(std::string_view rest) {
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::size_t first_at = rest.find('@');
  if (first_at == rest.npos) return std::nullopt;
  // An '@' behind the first '/' ends keys only if what stands before that '/' looks like their
  // beginning and not like a host.
  if (first_at > slash) {
    const std::string_view before = rest.substr(0, slash);
    if (before.find(':') == before.npos || IsHostAndPort(before)) return std::nullopt;
  }
  for (std::size_t at = first_at; at != rest.npos; at = rest.find('@', at + 1)) {
    if (BeginsWithHost(rest.substr(at + 1))) return at;
  }
  return std::nullopt;
}

// Encoded or raw: what is not well-formed encoding is taken as it is.
std::string DecodeKey(std::string_view text) {
  auto decoded = UrlDecode(text);
  return decoded ? *std::move(decoded) : std::string(text);
}

// "scheme://AK:***@rest" cannot come from RedactUrl, which does not know that keys may contain '/'.
std::string Redact(std::string_view uri) {
  const std::size_t start = uri.find("://");
  if (start == uri.npos) return std::string(uri);
  const std::string_view rest = uri.substr(start + 3);
  const auto keys = FindKeys(rest);
  if (!keys) return RedactUrl(uri);
  return fmt::format("{}://{}:***@{}", uri.substr(0, start),
                     rest.substr(0, std::min(rest.find(':'), *keys)), rest.substr(*keys + 1));
}

bool IsAddress(std::string_view host) {
  const std::string text(host);
  in_addr address;
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 || text.starts_with('[');
}

std::string_view WithoutPort(std::string_view authority) {
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  if (colon == authority.npos || (bracket != authority.npos && colon < bracket)) return authority;
  return authority.substr(0, colon);
}

// Hosts that cannot have the bucket in their name.
bool HasBucketInPath(std::string_view authority) {
  const std::string_view host = WithoutPort(authority);
  const bool amazon = host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
  return host == "localhost" || IsAddress(host) ||
         (amazon && (host.starts_with("s3.") || host.starts_with("s3-")));
}

// Reads one URI; every failure quotes it without its secret.
class Reader {
 public:
  Reader(std::string_view uri, bool no_https) : uri_(uri), no_https_(no_https) {}

  Result<StorageUri> Read() {
    const std::size_t colon = uri_.find("://");
    if (colon == uri_.npos) {
      if (!uri_.starts_with('/')) {
        return Bad(
            "it must be an absolute path or begin with s3://, minio://, bos://, hdfs://, redis:// "
            "or file://");
      }
      return FileUri(uri_);
    }
    std::string& storage = out_.config.storage;
    for (const char c : uri_.substr(0, colon)) {
      storage.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
    std::string_view rest = uri_.substr(colon + 3);
    if (storage == "file") return FileUri(rest);
    if (storage == "rediss" || storage == "redis") return RedisUri(rest);
    if (storage == "hdfs" || storage == "webhdfs" || storage == "swebhdfs") return HdfsUri(rest);
    if (storage != "s3" && storage != "minio" && storage != "bos") {
      return Fail(Code::kNotSupported,
                  "\"{}\": storage {} is not supported; use file, s3, minio, bos, redis or hdfs",
                  Redact(uri_), storage);
    }
    TakeKeys(rest);
    return BucketUri(rest);
  }

 private:
  std::unexpected<Status> Bad(std::string_view why) const {
    return Fail(Code::kInvalid, "\"{}\": {}", Redact(uri_), why);
  }

  void TakeKeys(std::string_view& rest) {
    const auto length = FindKeys(rest);
    if (!length) return;
    const std::string_view keys = rest.substr(0, *length);
    rest.remove_prefix(*length + 1);
    const std::size_t first = std::min(keys.find(':'), keys.size());
    out_.config.access_key = DecodeKey(keys.substr(0, first));
    if (first == keys.size()) return;
    const std::string_view secrets = keys.substr(first + 1);
    const std::size_t second = std::min(secrets.find(':'), secrets.size());
    out_.config.secret_key = Secret(DecodeKey(secrets.substr(0, second)));
    if (second == secrets.size()) return;
    out_.config.session_token = Secret(DecodeKey(secrets.substr(second + 1)));
  }

  Result<std::string> Decode(std::string_view path) const {
    auto decoded = UrlDecode(path);
    if (!decoded) return Bad("a '%' in the path must be written %25");
    return decoded;
  }

  Result<StorageUri> FileUri(std::string_view path) {
    if (!path.starts_with('/')) return Bad("a file URI is file:// and an absolute path");
    out_.config.storage = "file";
    out_.config.bucket = path;
    return out_;
  }

  Result<StorageUri> BucketUri(std::string_view rest) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view authority = rest.substr(0, slash);
    if (authority.empty() || !BeginsWithHost(authority))
      return Bad("there is no bucket and no host");
    std::string_view path = rest.substr(std::min(slash + 1, rest.size()));
    StorageConfig& config = out_.config;
    const bool secure =
        config.storage != "minio" && !no_https_ && !IsAddress(WithoutPort(authority)) &&
        WithoutPort(authority) != "localhost" && !EndsWithAddress(WithoutPort(authority));
    config.bucket = fmt::format("{}://{}", secure ? "https" : "http", authority);
    if (config.storage == "minio" || HasBucketInPath(authority)) {
      const std::size_t end = std::min(path.find('/'), path.size());
      if (end == 0) return Bad("there is no bucket behind the host");
      config.bucket += fmt::format("/{}", path.substr(0, end));
      path.remove_prefix(std::min(end + 1, path.size()));
    }
    ASSIGN_OR_RETURN(out_.prefix, Decode(path));
    return out_;
  }

  Result<StorageUri> HdfsUri(std::string_view rest) {
    TakeKeys(rest);
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view authority = rest.substr(0, slash);
    if (authority.empty() || !BeginsWithHost(authority)) return Bad("there is no host");
    StorageConfig& config = out_.config;
    const bool secure = config.storage == "swebhdfs" && !no_https_;
    const bool has_port = WithoutPort(authority).size() != authority.size();
    config.bucket = fmt::format("{}://{}{}", secure ? "https" : "http", authority,
                                has_port ? ""
                                : secure ? ":9871"
                                         : ":9870");
    config.storage = "hdfs";
    // A path of HDFS is text, not encoded: as its own tools take it.
    out_.prefix = rest.substr(std::min(slash + 1, rest.size()));
    return out_;
  }

  // "bucket.127.0.0.1".
  static bool EndsWithAddress(std::string_view host) {
    const std::size_t dot = host.find('.');
    return dot != host.npos && IsAddress(host.substr(dot + 1));
  }

  Result<StorageUri> RedisUri(std::string_view rest) {
    TakeKeys(rest);
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view authority = rest.substr(0, slash);
    if (authority.empty()) return Bad("there is no host");
    std::string_view path = rest.substr(std::min(slash + 1, rest.size()));
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view database = path.substr(0, end);
    if (!std::all_of(database.begin(), database.end(),
                     [](char c) { return c >= '0' && c <= '9'; })) {
      return Bad("what follows the host of a Redis URI is the number of a database");
    }
    StorageConfig& config = out_.config;
    config.bucket =
        fmt::format("{}://{}/{}", config.storage, authority, database.empty() ? "0" : database);
    config.storage = "redis";
    path.remove_prefix(std::min(end + 1, path.size()));
    ASSIGN_OR_RETURN(out_.prefix, Decode(path));
    return out_;
  }

  const std::string_view uri_;
  const bool no_https_;
  StorageUri out_;
};

}  // namespace

void StorageConfig::Trim() {
  for (std::string* text : {&storage, &bucket, &access_key}) *text = std::string(Trimmed(*text));
  for (Secret* secret : {&secret_key, &session_token}) {
    *secret = Secret(std::string(Trimmed(secret->Reveal())));
  }
  for (char& c : storage) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

void StorageConfig::FillKeys(const Environment& environment) {
  if (storage == "file" || storage == "redis" || storage == "hdfs") return;
  const auto value = [&](const char* name) {
    return std::string(Trimmed(environment(name).value_or("")));
  };
  if (access_key.empty()) access_key = value("ACCESS_KEY");
  if (secret_key.empty()) secret_key = Secret(value("SECRET_KEY"));
  if (session_token.empty()) session_token = Secret(value("SESSION_TOKEN"));
  // Half a pair from here and half from there would never match.
  const auto fill = [&](const char* access, const char* secret, const char* token) {
    if (!access_key.empty() || value(access).empty()) return;
    access_key = value(access);
    secret_key = Secret(value(secret));
    session_token = Secret(token == nullptr ? "" : value(token));
  };
  if (storage == "minio") fill("MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", nullptr);
  if (storage == "minio" || storage == "s3") {
    fill("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN");
  }
  if (storage == "bos") fill("BDCLOUD_ACCESS_KEY", "BDCLOUD_SECRET_KEY", nullptr);
}

std::string StorageUri::Redacted() const {
  std::string_view place = config.bucket;
  if (config.storage == "file") return "file://" + config.bucket + prefix;
  if (const std::size_t start = place.find("://"); start != place.npos)
    place.remove_prefix(start + 3);
  return fmt::format("{}://{}/{}", config.storage, place, prefix);
}

Result<StorageUri> ParseStorageUri(std::string_view uri, bool no_https) {
  return Reader(Trimmed(uri), no_https).Read();
}

}  // namespace paddleop::volume::object
