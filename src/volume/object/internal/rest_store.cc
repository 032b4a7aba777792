#include "volume/object/internal/rest_store.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/crypto.h"
#include "volume/object/internal/times.h"

namespace paddleop::volume::object::internal {
namespace {

using net::HttpResponse;

// No server may put us to sleep for longer.
constexpr std::chrono::seconds kMaxRetryAfter(300);

bool IsSuccess(const HttpResponse& response) { return response.status / 100 == 2; }

template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string RangeHeader(const ByteRange& range) {
  if (range.length == ByteRange::kToEnd || range.length > ByteRange::kToEnd - range.offset) {
    return fmt::format("bytes={}-", range.offset);
  }
  return fmt::format("bytes={}-{}", range.offset, range.offset + range.length - 1);
}

// "bytes 0-9/100", or "bytes */100" for a range behind the end (RFC 9110, section 14.4).
struct ContentRange {
  std::optional<std::uint64_t> first;
  std::uint64_t total = 0;
};
std::optional<ContentRange> ParseContentRange(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  ContentRange range;
  const auto total = ParseNumber<std::uint64_t>(text.substr(slash + 1));
  if (!total) return std::nullopt;
  range.total = *total;
  text = text.substr(0, slash);
  if (text == "*") return range;
  range.first = ParseNumber<std::uint64_t>(text.substr(0, text.find('-')));
  if (!range.first) return std::nullopt;
  return range;
}

// Hands out the caller's bytes piece by piece.
net::BodySource SourceOf(std::span<const std::byte> data) {
  return [data](std::span<char> out) mutable -> Result<std::size_t> {
    const std::size_t n = std::min(out.size(), data.size());
    if (n > 0) std::memcpy(out.data(), data.data(), n);
    data = data.subspan(n);
    return n;
  };
}

}  // namespace

std::string EncodeQuery(const Pairs& query) {
  std::vector<std::string> parts;
  parts.reserve(query.size());
  for (const auto& [name, value] : query) parts.push_back(UrlEncode(name) + "=" + UrlEncode(value));
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text.push_back('&');
    text += part;
  }
  return text;
}

std::string EtagOf(const HttpResponse& response) {
  std::string_view etag = response.headers.Get("ETag").value_or("");
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

std::span<const std::byte> RestCall::body() const { return text.empty() ? data : AsBytes(text); }

RestStore::RestStore(std::unique_ptr<net::HttpClient> http, Headers headers, Clock& clock)
    : http_(std::move(http)), headers_(std::move(headers)), clock_(clock) {}

RestStore::~RestStore() = default;

void RestStore::Close() {
  {
    MutexLock lock(closing_mutex_);
    closing_ = true;
  }
  http_.reset();
}

bool RestStore::TryAgain(const Result<HttpResponse>& response, const std::function<void()>& again) {
  if (!response || IsSuccess(*response) || !Learn(*response)) return false;
  MutexLock lock(closing_mutex_);
  if (closing_) return false;
  again();
  return true;
}

std::string RestStore::Describe(const RestCall& call) const {
  return fmt::format("{} {}{}", call.verb, name(), call.key);
}

net::HttpRequest RestStore::Request(const RestCall& call) const {
  net::HttpRequest request = Address(call);
  request.method = call.method;
  if (call.checked) request.checksum_if = headers_.meta_crc32c;
  if (!call.text.empty()) {
    request.body = call.text;
  } else if (!call.data.empty()) {
    request.body_source = SourceOf(call.data);
    request.body_size = call.data.size();
  }
  return request;
}

std::chrono::steady_clock::duration RestStore::RetryAfter() const {
  const std::chrono::steady_clock::time_point until{
      std::chrono::steady_clock::duration(not_before_.load())};
  return std::max(until - clock_.Now(), std::chrono::steady_clock::duration::zero());
}

// Seconds or a date (RFC 9110, section 10.2.3).
void RestStore::NoteRetryAfter(const HttpResponse& response) {
  const auto header = response.headers.Get("Retry-After");
  if (!header) return;
  std::chrono::seconds delay(0);
  if (const auto number = ParseNumber<std::uint32_t>(*header)) {
    delay = std::chrono::seconds(*number);
  } else if (const auto time = ParseHttpTime(*header)) {
    delay = std::chrono::ceil<std::chrono::seconds>(*time - clock_.WallNow());
  }
  delay = std::clamp(delay, std::chrono::seconds(0), kMaxRetryAfter);
  not_before_ = (clock_.Now() + delay).time_since_epoch().count();
}

Result<HttpResponse> RestStore::Exchange(const Context& ctx, const RestCall& call) {
  auto response = http_->Do(ctx, Request(call));
  if (response && !IsSuccess(*response) && Learn(*response)) {
    response = http_->Do(ctx, Request(call));
  }
  if (!response) return std::unexpected(std::move(response.error()).Wrap(Describe(call)));
  return response;
}

// The answer if it is a success.
Result<HttpResponse> RestStore::Accept(const RestCall& call, Result<HttpResponse> response) {
  if (!response) return response;
  if (IsSuccess(*response) && !HidesError(*response)) return response;
  NoteRetryAfter(*response);
  return std::unexpected(ErrorOf(call, *response));
}

Result<HttpResponse> RestStore::Do(const Context& ctx, const RestCall& call) {
  return Accept(call, Exchange(ctx, call));
}

Result<void> RestStore::CheckKey(std::string_view verb, std::string_view key) const {
  // The bucket would be meant instead, and a DELETE would remove it.
  if (key.empty()) return Fail(Code::kInvalid, "{} {}: an object needs a key", verb, name());
  return {};
}

Result<RestCall> RestStore::GetCall(std::string_view key, const GetOptions& options) const {
  RETURN_IF_ERROR(CheckKey("get", key));
  RestCall call{.verb = "get", .key = std::string(key), .checked = options.range.whole()};
  if (!options.range.whole()) call.headers.emplace_back("range", RangeHeader(options.range));
  if (!options.if_match.empty()) {
    call.headers.emplace_back("if-match", "\"" + options.if_match + "\"");
  }
  return call;
}

Result<GetResult> RestStore::FinishGet(const RestCall& call, const GetOptions& options,
                                       Result<HttpResponse> response, std::size_t received) {
  if (!response) return std::unexpected(response.error());
  GetResult got;
  const auto range = ParseContentRange(response->headers.Get("Content-Range").value_or(""));
  if (response->status == 416) {
    // Nothing there to read; a store that does not say how long the object is leaves it open.
    if (range) got.object_size = range->total;
    return got;
  }
  auto accepted = Accept(call, std::move(response));
  if (!accepted) return std::unexpected(accepted.error());
  got.size = received;
  got.etag = EtagOf(*accepted);
  if (const auto crc = accepted->headers.Get(headers_.meta_crc32c)) {
    got.crc32c = ParseNumber<std::uint32_t>(*crc);
    got.received_crc32c = accepted->crc32c;
  }
  if (accepted->status == 206) {
    if (!range || range->first != options.range.offset) {
      return Fail(Code::kCorrupt, "{}: asked for {}, got \"{}\"", Describe(call),
                  RangeHeader(options.range),
                  accepted->headers.Get("Content-Range").value_or("no Content-Range"));
    }
    got.object_size = range->total;
    return got;
  }
  got.object_size = received;
  // A server may ignore the range; harmless only if the whole is what was asked for.
  if (options.range.offset > 0 || received > options.range.length) {
    return Fail(Code::kNotSupported, "{}: the server does not know ranges", Describe(call));
  }
  return got;
}

Result<GetResult> RestStore::Get(const Context& ctx, std::string_view key,
                                 const GetOptions& options, std::span<std::byte> out) {
  if (options.range.length == 0) return GetResult{};
  ASSIGN_OR_RETURN(const RestCall call, GetCall(key, options));
  std::size_t received = 0;
  auto response = http_->DoInto(ctx, Request(call), out, &received);
  if (response && !IsSuccess(*response) && Learn(*response)) {
    response = http_->DoInto(ctx, Request(call), out, &received);
  }
  if (!response) return std::unexpected(std::move(response.error()).Wrap(Describe(call)));
  return FinishGet(call, options, std::move(response), received);
}

void RestStore::AddPutHeaders(RestCall& call, const PutOptions& options) const {
  if (options.crc32c)
    call.headers.emplace_back(headers_.meta_crc32c, fmt::to_string(*options.crc32c));
  if (!options.storage_class.empty()) {
    call.headers.emplace_back(headers_.storage_class, options.storage_class);
  }
}

Result<RestCall> RestStore::PutCall(std::string_view key, std::span<const std::byte> data,
                                    const PutOptions& options) const {
  RETURN_IF_ERROR(CheckKey("put", key));
  RestCall call{.verb = "put", .method = "PUT", .key = std::string(key), .data = data};
  AddPutHeaders(call, options);
  return call;
}

Result<void> RestStore::Put(const Context& ctx, std::string_view key,
                            std::span<const std::byte> data, const PutOptions& options) {
  ASSIGN_OR_RETURN(const RestCall call, PutCall(key, data, options));
  RETURN_IF_ERROR(Do(ctx, call));
  return {};
}

Result<void> RestStore::Delete(const Context& ctx, std::string_view key) {
  RETURN_IF_ERROR(CheckKey("delete", key));
  auto deleted = Do(ctx, {.verb = "delete", .method = "DELETE", .key = std::string(key)});
  if (!deleted && !IsNotFound(deleted.error())) return std::unexpected(deleted.error());
  return {};
}

Result<std::vector<KeyError>> RestStore::DeleteMany(const Context& ctx,
                                                    std::span<const std::string> keys) {
  std::vector<KeyError> failed;
  std::vector<std::string> together, alone;
  for (const std::string& key : keys) (CanDeleteTogether(key) ? together : alone).push_back(key);
  const std::size_t batch = traits().delete_batch;
  for (std::size_t start = 0; start < together.size(); start += batch) {
    RETURN_IF_ERROR(ctx.Check());
    const std::size_t count = std::min(batch, together.size() - start);
    DeleteTogether(ctx, std::span(together).subspan(start, count), failed);
  }
  ASSIGN_OR_RETURN(std::vector<KeyError> more, ObjectStore::DeleteMany(ctx, alone));
  std::move(more.begin(), more.end(), std::back_inserter(failed));
  return failed;
}

void RestStore::DeleteTogether(const Context& ctx, std::span<const std::string> keys,
                               std::vector<KeyError>& failed) {
  const RestCall call = DeleteCall(keys);
  auto response = Do(ctx, call);
  if (!response && response.error().code() == Code::kNotSupported) {
    auto one_by_one = ObjectStore::DeleteMany(ctx, keys);
    if (one_by_one) std::move(one_by_one->begin(), one_by_one->end(), std::back_inserter(failed));
    if (one_by_one) return;
    response = std::unexpected(one_by_one.error());
  }
  if (!response) {
    for (const std::string& key : keys) failed.push_back({key, response.error()});
    return;
  }
  auto errors = ParseDelete(response->body);
  if (!errors) {
    const Status error = std::move(errors.error()).Wrap(Describe(call));
    for (const std::string& key : keys) failed.push_back({key, error});
    return;
  }
  for (KeyError& error : *errors) {
    if (!IsNotFound(error.error)) failed.push_back(std::move(error));
  }
}

Result<ObjectInfo> RestStore::Head(const Context& ctx, std::string_view key) {
  RETURN_IF_ERROR(CheckKey("head", key));
  const RestCall call{.verb = "head", .method = "HEAD", .key = std::string(key)};
  ASSIGN_OR_RETURN(const HttpResponse response, Do(ctx, call));
  ObjectInfo info;
  info.key = key;
  info.etag = EtagOf(response);
  const auto size = ParseNumber<std::uint64_t>(response.headers.Get("Content-Length").value_or(""));
  const auto time = ParseHttpTime(response.headers.Get("Last-Modified").value_or(""));
  if (!size || !time) {
    return Fail(Code::kCorrupt, "{}: the answer has no size or no time", Describe(call));
  }
  info.size = *size;
  info.mtime = *time;
  return info;
}

Result<void> RestStore::List(const Context& ctx, const ListOptions& options,
                             const ListVisitor& visit) {
  constexpr std::uint64_t kPage = 1000;
  std::uint64_t left = options.limit;
  std::string token;
  for (;;) {
    const RestCall call = ListCall(options, left > 0 ? std::min(left, kPage) : kPage, token);
    ASSIGN_OR_RETURN(const HttpResponse response, Do(ctx, call));
    auto page = ParseList(response.body);
    if (!page) return std::unexpected(std::move(page.error()).Wrap(Describe(call)));
    for (ObjectInfo& entry : page->entries) {
      // Stores differ in whether a prefix that is rolled up comes again after itself.
      if (!options.start_after.empty() && entry.key <= options.start_after) continue;
      ASSIGN_OR_RETURN(const bool more, visit(entry));
      if (!more || (options.limit > 0 && --left == 0)) return {};
    }
    if (!page->truncated) return {};
    if (page->token == token) {
      return Fail(Code::kCorrupt, "{}: the store repeats a page", Describe(call));
    }
    token = std::move(page->token);
  }
}

Result<void> RestStore::Copy(const Context& ctx, std::string_view from, std::string_view to) {
  RETURN_IF_ERROR(CheckKey("copy", from));
  RETURN_IF_ERROR(CheckKey("copy", to));
  RestCall call{.verb = "copy to", .method = "PUT", .key = std::string(to)};
  call.headers.emplace_back(headers_.copy_source, CopySource(from));
  auto copied = Do(ctx, call);
  if (!copied)
    return std::unexpected(std::move(copied.error()).Wrap(fmt::format("copy {}{}", name(), from)));
  return {};
}

Result<std::string> RestStore::CreateUpload(const Context& ctx, std::string_view key,
                                            const PutOptions& options) {
  RETURN_IF_ERROR(CheckKey("begin upload", key));
  RestCall call{.verb = "begin upload",
                .method = "POST",
                .key = std::string(key),
                .query = {{"uploads", ""}}};
  AddPutHeaders(call, options);
  ASSIGN_OR_RETURN(const HttpResponse response, Do(ctx, call));
  auto id = ParseUploadId(response.body);
  if (!id) return std::unexpected(std::move(id.error()).Wrap(Describe(call)));
  return id;
}

Result<UploadedPart> RestStore::UploadPart(const Context& ctx, std::string_view key,
                                           const std::string& upload, int number,
                                           std::span<const std::byte> data) {
  RETURN_IF_ERROR(CheckKey("upload part", key));
  const RestCall call{.verb = "upload part of",
                      .method = "PUT",
                      .key = std::string(key),
                      .query = {{"partNumber", fmt::to_string(number)}, {"uploadId", upload}},
                      .data = data};
  ASSIGN_OR_RETURN(const HttpResponse response, Do(ctx, call));
  UploadedPart part{number, EtagOf(response), data.size()};
  if (part.etag.empty()) return Fail(Code::kCorrupt, "{}: the part has no etag", Describe(call));
  return part;
}

Result<void> RestStore::CompleteUpload(const Context& ctx, std::string_view key,
                                       const std::string& upload,
                                       std::span<const UploadedPart> parts) {
  RETURN_IF_ERROR(CheckKey("complete upload", key));
  RETURN_IF_ERROR(Do(ctx, {.verb = "complete upload of",
                           .method = "POST",
                           .key = std::string(key),
                           .query = {{"uploadId", upload}},
                           .text = CompleteBody(parts)}));
  return {};
}

Result<void> RestStore::AbortUpload(const Context& ctx, std::string_view key,
                                    const std::string& upload) {
  RETURN_IF_ERROR(CheckKey("abort upload", key));
  auto aborted = Do(ctx, {.verb = "abort upload of",
                          .method = "DELETE",
                          .key = std::string(key),
                          .query = {{"uploadId", upload}}});
  if (!aborted && !IsNotFound(aborted.error())) return std::unexpected(aborted.error());
  return {};
}

// A Get that nobody waits for.
struct RestStore::PendingGet {
  Context ctx;
  RestCall call;
  GetOptions options;
  std::span<std::byte> out;
  GetDone done;
  std::size_t received = 0;
  bool repeated = false;
};

void RestStore::Send(std::shared_ptr<PendingGet> pending) {
  http_->StartInto(
      pending->ctx, Request(pending->call), pending->out, &pending->received,
      [this, pending](Result<HttpResponse> response) {
        if (!std::exchange(pending->repeated, true) && TryAgain(response, [&] { Send(pending); })) {
          return;
        }
        if (!response) {
          response.error() = std::move(response.error()).Wrap(Describe(pending->call));
        }
        pending->done(
            FinishGet(pending->call, pending->options, std::move(response), pending->received));
      });
}

void RestStore::StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                         std::span<std::byte> out, GetDone done) {
  if (options.range.length == 0) return done(GetResult{});
  auto call = GetCall(key, options);
  if (!call) return done(std::unexpected(call.error()));
  Send(std::make_shared<PendingGet>(PendingGet{.ctx = ctx,
                                               .call = *std::move(call),
                                               .options = options,
                                               .out = out,
                                               .done = std::move(done)}));
}

void RestStore::StartCall(const Context& ctx, Result<RestCall> made, Done done) {
  if (!made) return done(std::unexpected(made.error()));
  auto call = std::make_shared<const RestCall>(*std::move(made));
  const auto finish = [this, call, done = std::move(done)](Result<HttpResponse> response) {
    if (!response) return done(std::unexpected(std::move(response.error()).Wrap(Describe(*call))));
    auto accepted = Accept(*call, std::move(response));
    if (accepted) return done({});
    done(std::unexpected(accepted.error()));
  };
  http_->Start(ctx, Request(*call), [this, ctx, call, finish](Result<HttpResponse> response) {
    if (TryAgain(response, [&] { http_->Start(ctx, Request(*call), finish); })) return;
    finish(std::move(response));
  });
}

void RestStore::StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                         const PutOptions& options, Done done) {
  StartCall(ctx, PutCall(key, data, options), std::move(done));
}

void RestStore::StartDelete(const Context& ctx, std::string_view key, Done done) {
  if (auto valid = CheckKey("delete", key); !valid) return done(std::move(valid));
  StartCall(ctx, RestCall{.verb = "delete", .method = "DELETE", .key = std::string(key)},
            [done = std::move(done)](Result<void> deleted) {
              if (!deleted && IsNotFound(deleted.error())) return done({});
              done(std::move(deleted));
            });
}

}  // namespace paddleop::volume::object::internal
