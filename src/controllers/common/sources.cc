#include "controllers/common/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/crypto.h"

namespace paddleop::controllers {
namespace {

// What the engine reads by itself.
constexpr auto kSchemes = std::to_array<std::string_view>(
    {"bos", "file", "hdfs", "jfs", "minio", "redis", "rediss", "s3", "sqlite3", "unix"});
// What the official client reads besides.
constexpr auto kOfficialSchemes = std::to_array<std::string_view>(
    {"b2",     "ceph",  "cos",  "eos",   "gs",       "ibmcos", "jss",   "ks3", "mss",
     "nos",    "obs",   "oos",  "oss",   "qingstor", "qiniu",  "scs",   "scw", "space",
     "speedy", "swift", "tikv", "ufile", "wasabi",   "wasb",   "webdav"});

template <class List>
bool Contains(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::string_view SchemeOf(std::string_view uri) {
  const auto colon = uri.find("://");
  return colon == std::string_view::npos ? std::string_view() : uri.substr(0, colon);
}

std::string_view Family(std::string_view scheme) { return scheme == "minio" ? "s3" : scheme; }

bool HasObjectKeys(std::string_view scheme) {
  return scheme == "s3" || scheme == "minio" || scheme == "bos";
}

std::string Decoded(std::string_view text) {
  auto decoded = UrlDecode(text);
  return decoded ? *std::move(decoded) : std::string(text);
}

}  // namespace

Result<void> CheckSource(std::string_view uri, std::string_view driver, std::string_view field) {
  const std::string_view scheme = SchemeOf(uri);
  if (scheme.empty()) {
    if (uri.starts_with('/')) return {};
    return Fail(Code::kInvalid,
                "{}: \"{}\" has no scheme; it must look like bos://bucket.endpoint/prefix", field,
                RedactUrl(uri));
  }
  if (Contains(kSchemes, scheme)) return {};
  const bool official = Contains(kOfficialSchemes, scheme);
  if (driver == api::csi_driver::kJuicefs && official) return {};
  return Fail(Code::kInvalid, "{}: unknown scheme \"{}\"; known are {}{}", field, scheme,
              fmt::join(kSchemes, ", "), official ? " (this one with csi.driver juicefs)" : "");
}

bool SharesKeys(std::string_view uri, const SecretView& volume) {
  const std::string_view scheme = SchemeOf(uri);
  return volume.found() && !scheme.empty() &&
         Family(scheme) == Family(volume.secret->Value("storage").Reveal());
}

runtime::JobSource MakeSource(std::string_view uri, std::string path, const SecretView& secret) {
  runtime::JobSource source{
      .uri = std::string(uri.starts_with('/') ? "file://" : "") + std::string(uri),
      .path = std::move(path),
      .credentials = {}};
  if (secret.found()) {
    source.credentials = {.access_key = secret.secret->Value("access-key").Reveal(),
                          .secret_key = secret.secret->Value("secret-key"),
                          .session_token = secret.secret->Value("session-token")};
  }
  const std::string_view scheme = SchemeOf(source.uri);
  if (!HasObjectKeys(scheme)) return source;
  // Keys may hold '/' and '@'; host and bucket hold no '@'.
  const std::size_t begin = scheme.size() + 3;
  const std::size_t at = source.uri.rfind('@');
  const std::size_t colon = source.uri.find(':', begin);
  if (at == std::string::npos || at < begin || colon == std::string::npos || colon > at)
    return source;
  if (source.credentials.empty()) {
    source.credentials.access_key =
        Decoded(std::string_view(source.uri).substr(begin, colon - begin));
    source.credentials.secret_key =
        Secret(Decoded(std::string_view(source.uri).substr(colon + 1, at - colon - 1)));
  }
  source.uri.erase(begin, at + 1 - begin);
  return source;
}

}  // namespace paddleop::controllers
