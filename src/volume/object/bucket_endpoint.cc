#include "volume/object/bucket_endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "net/url.h"

namespace paddleop::volume::object {
namespace {

constexpr std::string_view kDefaultRegion = "us-east-1";

bool IsAmazon(std::string_view host) {
  return host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
}

bool IsAddress(const std::string& host) {
  in6_addr address;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// The region in "s3.REGION.amazonaws.com", "s3-REGION.amazonaws.com" or with "dualstack." before
// it; empty if the host names none.
std::string RegionOf(std::string_view host) {
  if (host.starts_with("s3.") || host.starts_with("s3-")) host.remove_prefix(3);
  if (host.starts_with("dualstack.")) host.remove_prefix(10);
  if (host.starts_with("amazonaws.com") || host.starts_with("accelerate.")) return "";
  const std::string_view region = host.substr(0, host.find('.'));
  return region == "external-1" ? std::string(kDefaultRegion) : std::string(region);
}

std::string First(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto value = environment(name); value && !value->empty()) return *value;
  }
  return "";
}

bool IsTrue(const net::Url& url, const std::string& option) {
  const auto found = url.query.find(option);
  return found != url.query.end() && (found->second == "true" || found->second == "1");
}

std::string Option(const net::Url& url, const std::string& option) {
  const auto found = url.query.find(option);
  return found == url.query.end() ? "" : found->second;
}

Result<net::Url> ParseAddress(std::string_view text, std::string_view default_scheme) {
  std::string url(text);
  if (text.find("://") == text.npos) url = std::string(default_scheme) + "://" + url;
  ASSIGN_OR_RETURN(net::Url parsed, net::ParseUrl(url));
  if (parsed.scheme != "http" && parsed.scheme != "https") {
    return Fail(Code::kInvalid, "bucket \"{}\": the scheme must be http or https",
                parsed.Redacted());
  }
  if (parsed.host.empty()) return Fail(Code::kInvalid, "bucket \"{}\": no host", parsed.Redacted());
  if (!parsed.user.empty() || !parsed.password.empty()) {
    return Fail(
        Code::kInvalid,
        "bucket \"{}\": keys do not belong into the bucket; give them as access and secret key",
        parsed.Redacted());
  }
  if (!std::all_of(parsed.host.begin(), parsed.host.end(), [](unsigned char c) {
        return std::isalnum(c) || c == '-' || c == '.' || c == '_' || c == ':';
      })) {
    return Fail(Code::kInvalid, "bucket \"{}\": the host has a character that no host name has",
                parsed.Redacted());
  }
  std::transform(parsed.host.begin(), parsed.host.end(), parsed.host.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // The Host header, which is signed, has no default port.
  if (parsed.port == (parsed.scheme == "https" ? 443 : 80)) parsed.port.reset();
  while (parsed.path.ends_with('/')) parsed.path.pop_back();
  return parsed;
}

BucketEndpoint WithOptions(const net::Url& url) {
  BucketEndpoint endpoint;
  endpoint.scheme = url.scheme;
  endpoint.checksum = !IsTrue(url, "disable-checksum");
  endpoint.region = Option(url, "region");
  endpoint.tls.insecure_skip_verify = IsTrue(url, "tls-insecure-skip-verify");
  endpoint.tls.ca_file = Option(url, "ca-certs");
  endpoint.tls.cert_file = Option(url, "ssl-cert");
  endpoint.tls.key_file = Option(url, "ssl-key");
  return endpoint;
}

// The address of the URL with another host.
std::string AuthorityOf(net::Url url, std::string_view host) {
  url.host = host;
  return url.Authority();
}

std::string FirstPart(std::string_view path) {
  path.remove_prefix(1);
  return std::string(path.substr(0, path.find('/')));
}

bool WantsVirtualHosts(const Environment& environment) {
  return !First(environment, {"JFS_S3_VHOST_STYLE"}).empty();
}

Result<void> CheckBucketName(const BucketEndpoint& endpoint, std::string_view text) {
  const std::string& name = endpoint.bucket;
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '.' || c == '_';
  });
  if (!plain || name.size() < 2 || name.size() > 255) {
    return Fail(Code::kInvalid, R"(bucket "{}": "{}" is no name of a bucket)", text, name);
  }
  return {};
}

// BUCKET.ENDPOINT, or BUCKET alone.
Result<void> SplitHost(const net::Url& url, BucketEndpoint& endpoint) {
  const std::string_view host = url.host;
  const std::size_t dot = host.find('.');
  const bool service_only = IsAmazon(host) && (host.starts_with("s3.") || host.starts_with("s3-"));
  if (IsAddress(url.host) || url.host == "localhost" || service_only) {
    return Fail(Code::kInvalid, "bucket \"{}\" names no bucket: write {}://{}/BUCKET",
                url.Redacted(), url.scheme, url.Authority());
  }
  if (dot == host.npos) {
    endpoint.bucket = host;
    endpoint.amazon = true;
    return {};
  }
  // Names of buckets may have dots, so on Amazon's hosts the service's own label is looked for.
  std::size_t service = host.rfind(".s3.");
  if (service == host.npos) service = host.rfind(".s3-");
  if (IsAmazon(host) && host.find(".vpce.") == host.npos && service != host.npos) {
    endpoint.bucket = host.substr(0, service);
    endpoint.authority = AuthorityOf(url, host.substr(service + 1));
    endpoint.amazon = true;
    return {};
  }
  endpoint.bucket = host.substr(0, dot);
  endpoint.authority = AuthorityOf(url, host.substr(dot + 1));
  return {};
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::string BucketEndpoint::Name(std::string_view storage) const {
  if (amazon) return fmt::format("{}://{}/", storage, bucket);
  if (path_style) return fmt::format("{}://{}/{}/", storage, authority, bucket);
  return fmt::format("{}://{}.{}/", storage, bucket, authority);
}

Result<BucketEndpoint> ParseS3Bucket(std::string_view bucket, const Environment& environment) {
  const std::string_view host = bucket.substr(0, bucket.find_first_of("/:?"));
  const bool secure = host.find('.') == host.npos || IsAmazon(host);
  ASSIGN_OR_RETURN(const net::Url url, ParseAddress(bucket, secure ? "https" : "http"));
  BucketEndpoint endpoint = WithOptions(url);
  if (!url.path.empty()) {
    endpoint.bucket = FirstPart(url.path);
    endpoint.authority = url.Authority();
    endpoint.amazon = IsAmazon(url.host);
  } else {
    RETURN_IF_ERROR(SplitHost(url, endpoint));
  }
  RETURN_IF_ERROR(CheckBucketName(endpoint, bucket));
  if (endpoint.region.empty() && endpoint.amazon) {
    endpoint.region = RegionOf(endpoint.authority.substr(0, endpoint.authority.find(':')));
  }
  if (endpoint.region.empty())
    endpoint.region = First(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (endpoint.region.empty()) endpoint.region = kDefaultRegion;
  if (endpoint.authority.empty()) {
    endpoint.authority = fmt::format("s3.{}.amazonaws.com", endpoint.region);
  }
  // A certificate for *.s3.amazonaws.com does not cover a name with dots.
  const bool dotted = endpoint.scheme == "https" && endpoint.bucket.find('.') != std::string::npos;
  endpoint.path_style = endpoint.amazon ? dotted : !WantsVirtualHosts(environment);
  return endpoint;
}

Result<BucketEndpoint> ParseMinioBucket(std::string_view bucket, const Environment& environment) {
  ASSIGN_OR_RETURN(net::Url url, ParseAddress(bucket, "http"));
  if (url.path.starts_with("/minio/")) url.path.erase(0, 6);
  if (url.path.empty()) {
    return Fail(Code::kInvalid, "bucket \"{}\" names no bucket: write {}://{}/BUCKET",
                url.Redacted(), url.scheme, url.Authority());
  }
  BucketEndpoint endpoint = WithOptions(url);
  endpoint.bucket = FirstPart(url.path);
  endpoint.authority = url.Authority();
  RETURN_IF_ERROR(CheckBucketName(endpoint, bucket));
  if (endpoint.region.empty()) endpoint.region = First(environment, {"MINIO_REGION"});
  if (endpoint.region.empty()) endpoint.region = kDefaultRegion;
  endpoint.path_style = !WantsVirtualHosts(environment);
  return endpoint;
}

Result<BucketEndpoint> ParseBosBucket(std::string_view bucket, const Environment& environment) {
  constexpr std::string_view kDomain = "bcebos.com";
  ASSIGN_OR_RETURN(const net::Url url, ParseAddress(bucket, "https"));
  BucketEndpoint endpoint = WithOptions(url);
  if (!url.path.empty()) {
    endpoint.bucket = FirstPart(url.path);
    endpoint.authority = url.Authority();
    RETURN_IF_ERROR(CheckBucketName(endpoint, bucket));
    return endpoint;
  }
  const std::string_view host = url.host;
  const std::size_t dot = host.find('.');
  if (dot == host.npos || IsAddress(url.host)) {
    return Fail(Code::kInvalid, "bucket \"{}\": write BUCKET.REGION.bcebos.com", url.Redacted());
  }
  endpoint.path_style = false;
  endpoint.bucket = host.substr(0, dot);
  std::string service(host.substr(dot + 1));
  if (service == kDomain) {
    const std::string region = First(environment, {"BDCLOUD_DEFAULT_REGION"});
    if (region.empty()) {
      return Fail(
          Code::kInvalid,
          "bucket \"{}\" has no region: write {}.REGION.bcebos.com (bj, gz, su, ...) or set "
          "BDCLOUD_DEFAULT_REGION",
          url.Redacted(), endpoint.bucket);
    }
    service = fmt::format("{}.{}", region, kDomain);
  }
  endpoint.authority = AuthorityOf(url, service);
  RETURN_IF_ERROR(CheckBucketName(endpoint, bucket));
  return endpoint;
}

}  // namespace paddleop::volume::object
