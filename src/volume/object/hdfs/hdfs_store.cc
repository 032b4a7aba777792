#include "volume/object/hdfs/hdfs_store.h"

#include <algorithm>
#include <utility>

#include "base/crypto.h"
#include "volume/object/hdfs/hdfs_json.h"
#include "volume/object/internal/list_filter.h"

namespace paddleop::volume::object {
namespace {

using net::HttpRequest;
using net::HttpResponse;

bool IsSuccess(int status) { return status >= 200 && status < 300; }

class HdfsStore final : public ObjectStore {
 public:
  HdfsStore(HdfsOptions options, std::unique_ptr<net::HttpClient> http)
      : options_(std::move(options)), http_(std::move(http)) {}

  std::string name() const override {
    return "hdfs://" + options_.endpoint.substr(options_.endpoint.find("://") + 3) + "/";
  }
  StoreTraits traits() const override { return {.asynchronous = true}; }
  Result<void> Create(const Context&) override { return SourceOnly(); }
  Result<void> Put(const Context&, std::string_view, std::span<const std::byte>,
                   const PutOptions&) override {
    return SourceOnly();
  }
  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override;
  Result<void> Delete(const Context& ctx, std::string_view key) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override;
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override;
  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override;

 private:
  // A read on its way; lives in the callbacks.
  struct Pending {
    Context ctx;
    std::string key;
    GetOptions options;
    std::size_t received = 0;
    GetDone done;
  };

  std::unexpected<Status> SourceOnly() const {
    return Fail(Code::kNotSupported,
                "{}: HDFS is a source to import from; nothing is written there", name());
  }
  HttpRequest Request(std::string method, std::string_view key, std::string_view query) const;
  HttpRequest OpenRequest(std::string_view key, const ByteRange& range) const;
  Result<HttpResponse> Do(const Context& ctx, std::string_view verb, std::string_view key,
                          HttpRequest request);
  std::string What(std::string_view verb, std::string_view key) const {
    return fmt::format("{} {}{}", verb, name(), key);
  }
  // After the bytes have arrived: whether the file still is what it was.
  Result<void> CheckMatch(std::string_view key, const std::string& if_match,
                          const Result<HttpResponse>& status) const;
  Result<GetResult> Finish(const Pending& pending, const Result<HttpResponse>& response) const;
  Result<std::vector<HdfsStatus>> ReadDirectory(const Context& ctx, const std::string& directory);
  Result<bool> Walk(const Context& ctx, const std::string& directory, const ListOptions& options,
                    internal::ListFilter& filter);

  const HdfsOptions options_;
  const std::unique_ptr<net::HttpClient> http_;
};

HttpRequest HdfsStore::Request(std::string method, std::string_view key,
                               std::string_view query) const {
  HttpRequest request;
  request.method = std::move(method);
  while (key.ends_with('/')) key.remove_suffix(1);
  request.url = fmt::format("{}/webhdfs/v1/{}?{}", options_.endpoint, UrlEncode(key, "/"), query);
  if (!options_.user.empty()) request.url += "&user.name=" + UrlEncode(options_.user);
  return request;
}

HttpRequest HdfsStore::OpenRequest(std::string_view key, const ByteRange& range) const {
  std::string query = "op=OPEN";
  if (range.offset > 0) query += fmt::format("&offset={}", range.offset);
  if (range.length != ByteRange::kToEnd) query += fmt::format("&length={}", range.length);
  return Request("GET", key, query);
}

Result<HttpResponse> HdfsStore::Do(const Context& ctx, std::string_view verb, std::string_view key,
                                   HttpRequest request) {
  auto response = http_->Do(ctx, std::move(request));
  if (!response) return std::unexpected(std::move(response).error().Wrap(What(verb, key)));
  if (!IsSuccess(response->status)) {
    return std::unexpected(ParseHdfsError(response->status, response->body, What(verb, key)));
  }
  return response;
}

Result<void> HdfsStore::CheckMatch(std::string_view key, const std::string& if_match,
                                   const Result<HttpResponse>& response) const {
  if (!response) return std::unexpected(response.error().Wrap(What("check", key)));
  if (!IsSuccess(response->status)) {
    return std::unexpected(ParseHdfsError(response->status, response->body, What("check", key)));
  }
  ASSIGN_OR_RETURN(const HdfsStatus now, ParseHdfsStatus(response->body));
  if (now.info.etag == if_match) return {};
  return Fail(Code::kConflict, "{}{} has changed", name(), key);
}

Result<GetResult> HdfsStore::Finish(const Pending& pending,
                                    const Result<HttpResponse>& response) const {
  const std::string what = What("get", pending.key);
  if (!response) return std::unexpected(response.error().Wrap(what));
  if (!IsSuccess(response->status)) {
    // A range behind the end is refused as a bad request.
    return std::unexpected(ParseHdfsError(response->status, response->body, what));
  }
  GetResult got;
  got.size = pending.received;
  got.etag = pending.options.if_match;
  if (pending.options.range.whole()) got.object_size = got.size;
  return got;
}

Result<GetResult> HdfsStore::Get(const Context& ctx, std::string_view key,
                                 const GetOptions& options, std::span<std::byte> out) {
  if (options.range.length == 0) return GetResult{};
  Pending pending{.ctx = ctx, .key = std::string(key), .options = options, .done = {}};
  const auto response = http_->DoInto(ctx, OpenRequest(key, options.range), out, &pending.received);
  ASSIGN_OR_RETURN(GetResult got, Finish(pending, response));
  if (options.if_match.empty()) return got;
  RETURN_IF_ERROR(
      CheckMatch(key, options.if_match, http_->Do(ctx, Request("GET", key, "op=GETFILESTATUS"))));
  return got;
}

void HdfsStore::StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                         std::span<std::byte> out, GetDone done) {
  if (options.range.length == 0) return done(GetResult{});
  auto pending = std::make_shared<Pending>(
      Pending{.ctx = ctx, .key = std::string(key), .options = options, .done = std::move(done)});
  std::size_t* const received = &pending->received;
  http_->StartInto(ctx, OpenRequest(key, options.range), out, received,
                   [this, pending](const Result<HttpResponse>& response) {
                     auto got = Finish(*pending, response);
                     if (!got || pending->options.if_match.empty())
                       return pending->done(std::move(got));
                     http_->Start(pending->ctx, Request("GET", pending->key, "op=GETFILESTATUS"),
                                  [this, pending, got = *got](const Result<HttpResponse>& status) {
                                    auto same =
                                        CheckMatch(pending->key, pending->options.if_match, status);
                                    if (!same) return pending->done(std::unexpected(same.error()));
                                    pending->done(got);
                                  });
                   });
}

Result<void> HdfsStore::Delete(const Context& ctx, std::string_view key) {
  auto deleted = Do(ctx, "delete", key, Request("DELETE", key, "op=DELETE&recursive=false"));
  if (!deleted && !IsNotFound(deleted.error())) return std::unexpected(deleted.error());
  return {};
}

Result<ObjectInfo> HdfsStore::Head(const Context& ctx, std::string_view key) {
  ASSIGN_OR_RETURN(const HttpResponse response,
                   Do(ctx, "look up", key, Request("GET", key, "op=GETFILESTATUS")));
  ASSIGN_OR_RETURN(HdfsStatus status, ParseHdfsStatus(response.body));
  if (status.is_directory != key.ends_with('/')) {
    return Fail(Code::kNotFound, "{}{} is {}", name(), key,
                status.is_directory ? "a directory" : "a file");
  }
  status.info.key = key;
  return std::move(status.info);
}

Result<std::vector<HdfsStatus>> HdfsStore::ReadDirectory(const Context& ctx,
                                                         const std::string& directory) {
  std::vector<HdfsStatus> entries;
  std::string after;
  for (;;) {
    std::string query = "op=LISTSTATUS_BATCH";
    if (!after.empty()) query += "&startAfter=" + UrlEncode(after);
    ASSIGN_OR_RETURN(const HttpResponse response,
                     Do(ctx, "list", directory, Request("GET", directory, query)));
    ASSIGN_OR_RETURN(HdfsListing listing, ParseHdfsListing(response.body));
    for (HdfsStatus& entry : listing.entries) {
      // The answer for a file is the file itself.
      if (entry.info.key.empty()) return Fail(Code::kInvalid, "{}{} is a file", name(), directory);
      after = entry.info.key;
      if (entry.is_directory) entry.info.key += '/';
      if (entry.is_directory || entry.is_file) entries.push_back(std::move(entry));
    }
    if (!listing.more) break;
  }
  std::sort(entries.begin(), entries.end(),
            [](const HdfsStatus& a, const HdfsStatus& b) { return a.info.key < b.info.key; });
  return entries;
}

Result<bool> HdfsStore::Walk(const Context& ctx, const std::string& directory,
                             const ListOptions& options, internal::ListFilter& filter) {
  auto entries = ReadDirectory(ctx, directory);
  // Gone since its parent was read.
  if (!entries && IsNotFound(entries.error()) && directory.size() > options.prefix.size())
    return true;
  if (!entries) return std::unexpected(std::move(entries).error());
  for (HdfsStatus& entry : *entries) {
    entry.info.key.insert(0, directory);
    const std::string key = entry.info.key;
    if (!entry.is_directory || options.directories) {
      ASSIGN_OR_RETURN(const bool more, filter.Offer(entry.info));
      if (!more) return false;
    }
    if (!entry.is_directory || !filter.MayContain(key)) continue;
    ASSIGN_OR_RETURN(const bool more, Walk(ctx, key, options, filter));
    if (!more) return false;
  }
  return true;
}

Result<void> HdfsStore::List(const Context& ctx, const ListOptions& options,
                             const ListVisitor& visit) {
  internal::ListFilter filter(options, visit);
  const std::size_t slash = options.prefix.rfind('/');
  const std::string start = slash == std::string::npos ? "" : options.prefix.substr(0, slash + 1);
  RETURN_IF_ERROR(Walk(ctx, start, options, filter));
  return {};
}

}  // namespace

std::unique_ptr<ObjectStore> NewHdfsStore(HdfsOptions options,
                                          std::unique_ptr<net::HttpClient> http) {
  return std::make_unique<HdfsStore>(std::move(options), std::move(http));
}

}  // namespace paddleop::volume::object
