#include "volume/object/bos/bos_store.h"

#include <utility>

#include "base/crypto.h"
#include "volume/object/bos/bce_auth.h"
#include "volume/object/bos/bos_json.h"
#include "volume/object/internal/rest_error.h"
#include "volume/object/internal/rest_store.h"
#include "volume/object/internal/times.h"
#include "volume/object/internal/utf8.h"

namespace paddleop::volume::object {
namespace {

using internal::ListPage;
using internal::RestCall;
using internal::RestError;
using net::HttpResponse;

constexpr int kExpirySeconds = 1800;

class BosStore final : public internal::RestStore {
 public:
  BosStore(BosOptions options, std::unique_ptr<net::HttpClient> http, Clock& clock)
      : RestStore(std::move(http),
                  {.meta_crc32c = "x-bce-meta-crc32c",
                   .copy_source = "x-bce-copy-source",
                   .storage_class = "x-bce-storage-class"},
                  clock),
        options_(std::move(options)),
        name_(options_.endpoint.Name("bos")),
        clock_(clock) {}

  ~BosStore() override { Close(); }

  std::string name() const override { return name_; }
  StoreTraits traits() const override {
    return {.metadata = true,
            .copy = true,
            .asynchronous = true,
            .delete_batch = 1000,
            .min_part_size = 100 << 10,
            .max_part_size = std::uint64_t{5} << 30,
            .max_parts = 10'000};
  }
  Result<void> Create(const Context& ctx) override;

 protected:
  net::HttpRequest Address(const RestCall& call) const override;
  Status ErrorOf(const RestCall& call, const HttpResponse& response) const override;
  // The signature has no region, and a clock that is off by less than half an hour does no harm.
  bool Learn(const HttpResponse&) override { return false; }
  bool HidesError(const HttpResponse& response) const override {
    return response.body.starts_with('{') && response.body.size() < 4096 &&
           ParseBosError(response.body);
  }
  RestCall ListCall(const ListOptions& options, std::uint64_t limit,
                    const std::string& token) const override;
  Result<ListPage> ParseList(std::string_view body) const override { return ParseBosList(body); }
  std::string CopySource(std::string_view key) const override {
    return "/" + options_.endpoint.bucket + "/" + UrlEncode(key, "/");
  }
  Result<std::string> ParseUploadId(std::string_view body) const override {
    return ParseBosUploadId(body);
  }
  std::string CompleteBody(std::span<const UploadedPart> parts) const override {
    return BosCompleteBody(parts);
  }
  bool CanDeleteTogether(std::string_view key) const override { return internal::IsUtf8(key); }
  RestCall DeleteCall(std::span<const std::string> keys) const override {
    return {.verb = "delete many in",
            .method = "POST",
            .query = {{"delete", ""}},
            .text = BosDeleteBody(keys)};
  }
  Result<std::vector<KeyError>> ParseDelete(std::string_view body) const override;

 private:
  const BosOptions options_;
  const std::string name_;
  Clock& clock_;
};

net::HttpRequest BosStore::Address(const RestCall& call) const {
  const BucketEndpoint& endpoint = options_.endpoint;
  std::string host = endpoint.authority;
  std::string path = "/";
  if (endpoint.path_style) {
    path += endpoint.bucket;
    if (!call.key.empty()) path += "/";
  } else {
    host = endpoint.bucket + "." + host;
  }
  path += call.key;
  const std::string query = internal::EncodeQuery(call.query);
  net::HttpRequest request;
  request.url = endpoint.scheme + "://" + host + UrlEncode(path, "/");
  if (!query.empty()) request.url += "?" + query;
  for (const auto& [name, value] : call.headers) request.headers.Add(name, value);
  if (options_.credentials.anonymous()) return request;

  const auto now = clock_.WallNow();
  BceRequest signing{
      .method = call.method, .path = path, .query = call.query, .headers = {{"host", host}}};
  const auto add = [&](std::string name, std::string value) {
    signing.headers.emplace_back(name, value);
    request.headers.Add(std::move(name), std::move(value));
  };
  add("x-bce-date", internal::IsoTime(now));
  if (!options_.credentials.session_token.empty()) {
    add("x-bce-security-token", options_.credentials.session_token.Reveal());
  }
  for (const auto& header : call.headers) {
    if (header.first.starts_with("x-bce-")) signing.headers.push_back(header);
  }
  request.headers.Add("Authorization",
                      BceAuthorization(options_.credentials, signing, now, kExpirySeconds, true));
  return request;
}

Status BosStore::ErrorOf(const RestCall& call, const HttpResponse& response) const {
  return internal::RestStatus(
      {.what = Describe(call),
       .bucket = options_.endpoint.bucket,
       .endpoint = options_.endpoint.scheme + "://" + options_.endpoint.authority,
       .has_body = call.method != "HEAD"},
      response.status, ParseBosError(response.body).value_or(RestError{}));
}

RestCall BosStore::ListCall(const ListOptions& options, std::uint64_t limit,
                            const std::string& token) const {
  RestCall call{.verb = "list", .query = {{"maxKeys", fmt::to_string(limit)}}};
  if (!options.prefix.empty()) call.query.emplace_back("prefix", options.prefix);
  if (!options.delimiter.empty()) call.query.emplace_back("delimiter", options.delimiter);
  const std::string& marker = token.empty() ? options.start_after : token;
  if (!marker.empty()) call.query.emplace_back("marker", marker);
  return call;
}

Result<std::vector<KeyError>> BosStore::ParseDelete(std::string_view body) const {
  ASSIGN_OR_RETURN(const auto errors, ParseBosDeleteResult(body));
  std::vector<KeyError> failed;
  failed.reserve(errors.size());
  for (const auto& [key, error] : errors) {
    failed.push_back({key, internal::RestStatus({.what = fmt::format("delete {}{}", name_, key),
                                                 .bucket = options_.endpoint.bucket},
                                                200, error)});
  }
  return failed;
}

Result<void> BosStore::Create(const Context& ctx) {
  const RestCall head{.verb = "look for bucket", .method = "HEAD"};
  ASSIGN_OR_RETURN(const HttpResponse seen, Exchange(ctx, head));
  if (seen.status == 200) return {};
  if (seen.status != 404) return std::unexpected(ErrorOf(head, seen));
  auto made = Do(ctx, {.verb = "create bucket", .method = "PUT"});
  // Somebody with the same keys was faster.
  if (!made && IsAlreadyExists(made.error()) && Do(ctx, head)) return {};
  if (!made) return std::unexpected(made.error());
  return {};
}

}  // namespace

std::unique_ptr<ObjectStore> NewBosStore(BosOptions options, std::unique_ptr<net::HttpClient> http,
                                         Clock& clock) {
  return std::make_unique<BosStore>(std::move(options), std::move(http), clock);
}

}  // namespace paddleop::volume::object
