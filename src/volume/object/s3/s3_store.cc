#include "volume/object/s3/s3_store.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/mutex.h"
#include "volume/object/internal/rest_error.h"
#include "volume/object/internal/rest_store.h"
#include "volume/object/internal/times.h"
#include "volume/object/s3/s3_xml.h"
#include "volume/object/s3/sigv4.h"

namespace paddleop::volume::object {
namespace {

using internal::ListPage;
using internal::RestCall;
using internal::RestError;
using net::HttpResponse;

// Where requests go and how they are signed. Replaced as a whole when the server corrects the
// region.
struct Target {
  Target(BucketEndpoint e, const Credentials& credentials)
      : endpoint(std::move(e)), signer(credentials, endpoint.region) {}

  const BucketEndpoint endpoint;
  const SigV4Signer signer;
};

class S3Store final : public internal::RestStore {
 public:
  S3Store(S3Options options, std::unique_ptr<net::HttpClient> http, Clock& clock)
      : RestStore(std::move(http),
                  {.meta_crc32c = "x-amz-meta-crc32c",
                   .copy_source = "x-amz-copy-source",
                   .storage_class = "x-amz-storage-class"},
                  clock),
        options_(std::move(options)),
        name_(options_.endpoint.Name(options_.storage)),
        clock_(clock),
        target_(std::make_shared<const Target>(options_.endpoint, options_.credentials)) {}

  ~S3Store() override { Close(); }

  std::string name() const override { return name_; }
  StoreTraits traits() const override {
    return {.metadata = true,
            .copy = true,
            .asynchronous = true,
            .delete_batch = 1000,
            .min_part_size = 5 << 20,
            .max_part_size = std::uint64_t{5} << 30,
            .max_parts = 10'000};
  }
  Result<void> Create(const Context& ctx) override;

 protected:
  net::HttpRequest Address(const RestCall& call) const override;
  Status ErrorOf(const RestCall& call, const HttpResponse& response) const override;
  bool Learn(const HttpResponse& response) override;
  bool HidesError(const HttpResponse& response) const override;
  RestCall ListCall(const ListOptions& options, std::uint64_t limit,
                    const std::string& token) const override;
  Result<ListPage> ParseList(std::string_view body) const override { return ParseS3List(body); }
  std::string CopySource(std::string_view key) const override {
    return "/" + options_.endpoint.bucket + "/" + UrlEncode(key, "/");
  }
  Result<std::string> ParseUploadId(std::string_view body) const override {
    return ParseS3UploadId(body);
  }
  std::string CompleteBody(std::span<const UploadedPart> parts) const override {
    return S3CompleteBody(parts);
  }
  bool CanDeleteTogether(std::string_view key) const override { return FitsIntoXml(key); }
  RestCall DeleteCall(std::span<const std::string> keys) const override;
  Result<std::vector<KeyError>> ParseDelete(std::string_view body) const override;

 private:
  std::shared_ptr<const Target> CurrentTarget() const {
    MutexLock lock(mutex_);
    return target_;
  }
  void Sign(const RestCall& call, const Target& target, const std::string& path,
            const std::string& query, const std::string& host, net::HttpRequest& request) const;
  bool LearnRegion(const std::string& region);
  bool LearnTime(const HttpResponse& response);

  const S3Options options_;
  const std::string name_;
  Clock& clock_;
  std::atomic<std::int64_t> clock_offset_{0};  // seconds to add to ours for the server's time
  mutable Mutex mutex_;
  std::shared_ptr<const Target> target_ GUARDED_BY(mutex_);
};

net::HttpRequest S3Store::Address(const RestCall& call) const {
  const auto target = CurrentTarget();
  const BucketEndpoint& endpoint = target->endpoint;
  std::string host = endpoint.authority;
  std::string path = "/";
  if (endpoint.path_style) {
    path += endpoint.bucket;
    if (!call.key.empty()) path += "/";
  } else {
    host = endpoint.bucket + "." + host;
  }
  path += UrlEncode(call.key, "/");
  const std::string query = internal::EncodeQuery(call.query);
  net::HttpRequest request;
  request.url = endpoint.scheme + "://" + host + path;
  if (!query.empty()) request.url += "?" + query;
  for (const auto& [name, value] : call.headers) request.headers.Add(name, value);
  if (!options_.credentials.anonymous()) Sign(call, *target, path, query, host, request);
  return request;
}

void S3Store::Sign(const RestCall& call, const Target& target, const std::string& path,
                   const std::string& query, const std::string& host,
                   net::HttpRequest& request) const {
  const auto now = clock_.WallNow() + std::chrono::seconds(clock_offset_.load());
  SigV4Request signing{.method = call.method, .path = path, .query = query};
  // Small bodies are signed always: what they say is worth more than what they cost.
  signing.payload_hash = options_.sign_payload || call.data.empty()
                             ? HexEncode(Sha256(AsText(call.body())))
                             : kUnsignedPayload;
  internal::Pairs added = {{"x-amz-content-sha256", signing.payload_hash},
                           {"x-amz-date", internal::BasicTime(now)}};
  if (!options_.credentials.session_token.empty()) {
    added.emplace_back("x-amz-security-token", options_.credentials.session_token.Reveal());
  }
  signing.headers = added;
  signing.headers.emplace_back("host", host);
  for (const auto& header : call.headers) {
    if (header.first.starts_with("x-amz-") || header.first == "content-md5") {
      signing.headers.push_back(header);
    }
  }
  std::sort(signing.headers.begin(), signing.headers.end());
  for (auto& [name, value] : added) request.headers.Add(std::move(name), std::move(value));
  request.headers.Add("Authorization", target.signer.Authorization(signing, now));
}

Status S3Store::ErrorOf(const RestCall& call, const HttpResponse& response) const {
  const auto target = CurrentTarget();
  RestError error = ParseS3Error(response.body).value_or(RestError{});
  const bool is_head = call.method == "HEAD";
  // MinIO tells in a header what the answer to a HEAD has no body for.
  if (is_head) error.code = response.headers.Get("x-minio-error-code").value_or("");
  if (is_head) error.message = response.headers.Get("x-minio-error-desc").value_or("");
  if (error.region.empty()) error.region = response.headers.Get("x-amz-bucket-region").value_or("");
  if (error.region == target->endpoint.region) error.region.clear();
  return internal::RestStatus(
      {.what = Describe(call),
       .bucket = target->endpoint.bucket,
       .endpoint = target->endpoint.scheme + "://" + target->endpoint.authority,
       .has_body = !is_head},
      response.status, error);
}

bool S3Store::HidesError(const HttpResponse& response) const {
  // Copying and completing answer 200 before they know how it ends; only then a body has an
  // <Error>.
  return !response.body.empty() && response.body.size() < 4096 &&
         response.body.find("<Error>") != std::string::npos && ParseS3Error(response.body);
}

bool S3Store::LearnRegion(const std::string& region) {
  const bool plausible = !region.empty() && region.size() <= 64 &&
                         std::all_of(region.begin(), region.end(),
                                     [](unsigned char c) { return std::isalnum(c) || c == '-'; });
  if (!plausible) return false;
  MutexLock lock(mutex_);
  if (target_->endpoint.region == region) return false;
  BucketEndpoint endpoint = target_->endpoint;
  endpoint.region = region;
  if (endpoint.amazon) {
    const bool china = region.starts_with("cn-");
    endpoint.authority = fmt::format("s3.{}.amazonaws.com{}", region, china ? ".cn" : "");
  }
  target_ = std::make_shared<const Target>(std::move(endpoint), options_.credentials);
  return true;
}

bool S3Store::LearnTime(const HttpResponse& response) {
  const auto theirs = internal::ParseHttpTime(response.headers.Get("Date").value_or(""));
  if (!theirs) return false;
  const auto offset = std::chrono::duration_cast<std::chrono::seconds>(*theirs - clock_.WallNow());
  // Within the tolerance of the service the clock was not the reason.
  if (std::abs(offset.count() - clock_offset_.load()) < 60) return false;
  clock_offset_ = offset.count();
  return true;
}

bool S3Store::Learn(const HttpResponse& response) {
  if (options_.credentials.anonymous() && response.status != 301 && response.status != 307)
    return false;
  const RestError error = ParseS3Error(response.body).value_or(RestError{});
  if (error.code == "RequestTimeTooSkewed") return LearnTime(response);
  const bool misdirected = response.status == 301 || response.status == 307 ||
                           error.code == "AuthorizationHeaderMalformed" ||
                           error.code == "IllegalLocationConstraintException" ||
                           (response.status == 400 && response.body.empty());
  if (!misdirected) return false;
  std::string region(response.headers.Get("x-amz-bucket-region").value_or(""));
  return LearnRegion(region.empty() ? error.region : region);
}

RestCall S3Store::ListCall(const ListOptions& options, std::uint64_t limit,
                           const std::string& token) const {
  RestCall call{.verb = "list"};
  call.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"max-keys", fmt::to_string(limit)}};
  if (!options.prefix.empty()) call.query.emplace_back("prefix", options.prefix);
  if (!options.delimiter.empty()) call.query.emplace_back("delimiter", options.delimiter);
  if (!token.empty()) {
    call.query.emplace_back("continuation-token", token);
  } else if (!options.start_after.empty()) {
    call.query.emplace_back("start-after", options.start_after);
  }
  return call;
}

RestCall S3Store::DeleteCall(std::span<const std::string> keys) const {
  RestCall call{.verb = "delete many in", .method = "POST", .query = {{"delete", ""}}};
  call.text = S3DeleteBody(keys);
  call.headers.emplace_back("content-md5", Base64Encode(Md5(call.text)));
  return call;
}

Result<std::vector<KeyError>> S3Store::ParseDelete(std::string_view body) const {
  ASSIGN_OR_RETURN(const std::vector<S3KeyError> errors, ParseS3DeleteResult(body));
  std::vector<KeyError> failed;
  for (const S3KeyError& error : errors) {
    internal::RestSubject subject{.what = fmt::format("delete {}{}", name_, error.key),
                                  .bucket = options_.endpoint.bucket};
    failed.push_back({error.key, internal::RestStatus(subject, 200, error.error)});
  }
  return failed;
}

Result<void> S3Store::Create(const Context& ctx) {
  const RestCall head{.verb = "look for bucket", .method = "HEAD"};
  ASSIGN_OR_RETURN(const HttpResponse seen, Exchange(ctx, head));
  if (seen.status == 200) return {};
  if (seen.status != 404) return std::unexpected(ErrorOf(head, seen));
  RestCall make{.verb = "create bucket", .method = "PUT"};
  const std::string region = CurrentTarget()->endpoint.region;
  if (region != "us-east-1") make.text = S3CreateBucketBody(region);
  auto made = Do(ctx, make);
  // Somebody with the same keys was faster.
  if (!made && IsAlreadyExists(made.error()) && Do(ctx, head)) return {};
  if (!made) return std::unexpected(made.error());
  return {};
}

}  // namespace

std::unique_ptr<ObjectStore> NewS3Store(S3Options options, std::unique_ptr<net::HttpClient> http,
                                        Clock& clock) {
  return std::make_unique<S3Store>(std::move(options), std::move(http), clock);
}

}  // namespace paddleop::volume::object
