#include "integration/object/bos_standin.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/testing/matchers.h"
#include "volume/object/bos/bce_auth.h"
#include "volume/object/internal/times.h"

namespace paddleop::volume::object::testing {
namespace {

using net::ServerRequest;
using net::ServerResponse;
using nlohmann::json;

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

ServerResponse Error(int status, std::string_view code) {
  return ServerResponse::Json(
      status, json{{"code", code}, {"message", "words"}, {"requestId", "standin"}}.dump());
}

ServerResponse ErrorOf(const Status& error) {
  switch (error.code()) {
    case Code::kNotFound:
      return Error(
          404, error.message().find("upload") == std::string::npos ? "NoSuchKey" : "NoSuchUpload");
    case Code::kConflict:
      return Error(412, "PreconditionFailed");
    default:
      return Error(400, "InvalidArgument");
  }
}

std::string HttpTime(std::chrono::system_clock::time_point time) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::string iso = internal::IsoTime(time);
  return fmt::format("{}, {:02} {} {} {} GMT", kDays[std::chrono::weekday(day).c_encoding()],
                     unsigned(date.day()), kMonths[unsigned(date.month()) - 1], int(date.year()),
                     iso.substr(11, 8));
}

}  // namespace

struct BosStandIn::Call {
  std::string bucket;
  std::string key;
  std::vector<std::pair<std::string, std::string>> query;

  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  std::string Get(std::string_view name) const {
    const std::string* found = Find(name);
    return found == nullptr ? "" : *found;
  }
  const std::string* Find(std::string_view name) const {
    for (const auto& [key_, value] : query) {
      if (key_ == name) return &value;
    }
    return nullptr;
  }
};

BosStandIn::BosStandIn() {
  auto server = net::HttpServer::Start(
      {},
      [this](const Context& ctx, const ServerRequest& request) { return Handle(ctx, request); });
  EXPECT_OK(server);
  if (server) server_ = *std::move(server);
}

std::string BosStandIn::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", server_->port());
}

std::shared_ptr<MemObjectStore> BosStandIn::Bucket(const std::string& name) {
  MutexLock lock(mutex_);
  const auto found = buckets_.find(name);
  return found == buckets_.end() ? nullptr : found->second;
}

bool BosStandIn::IsSigned(const ServerRequest& request, const Call& call) const {
  const std::string_view sent = request.headers.Get("Authorization").value_or("");
  // bce-auth-v1/AK/time/expiry/signed headers/signature
  std::vector<std::string> parts;
  for (std::string_view rest = sent;;) {
    const std::size_t slash = rest.find('/');
    parts.emplace_back(rest.substr(0, slash));
    if (slash == rest.npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (parts.size() != 6) return false;
  const auto time = internal::ParseIsoTime(parts[2]);
  if (!time || parts[3].empty()) return false;
  const std::string listed = ";" + parts[4] + ";";
  BceRequest signing{.method = request.method, .path = request.path, .query = call.query};
  for (const auto& [name, value] : request.headers) {
    const std::string lower = Lower(name);
    const bool usual = lower == "host" || lower == "content-length" || lower == "content-type" ||
                       lower == "content-md5" || lower.starts_with("x-bce-");
    if (parts[4].empty() ? usual : listed.find(";" + lower + ";") != listed.npos) {
      signing.headers.emplace_back(name, value);
    }
  }
  const std::string expected =
      BceAuthorization(credentials_, signing, *time, std::stoi(parts[3]), !parts[4].empty());
  return sent == expected;
}

BosStandIn::Response BosStandIn::Handle(const Context& ctx, const ServerRequest& request) {
  Call call;
  std::string_view path = std::string_view(request.path).substr(1);
  if (path.starts_with("v1/")) path.remove_prefix(3);
  const std::size_t slash = std::min(path.find('/'), path.size());
  call.bucket = path.substr(0, slash);
  call.key = path.substr(std::min(slash + 1, path.size()));
  for (std::string_view rest = request.query; !rest.empty();) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t eq = std::min(pair.find('='), pair.size());
    const std::string_view value = eq < pair.size() ? pair.substr(eq + 1) : "";
    call.query.emplace_back(UrlDecode(pair.substr(0, eq)).value_or(""),
                            UrlDecode(value).value_or(""));
  }
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (!request.headers.Get("Authorization")) {
    if (!reads || !call.bucket.starts_with("public-")) return Error(403, "AccessDenied");
  } else if (!IsSigned(request, call)) {
    return Error(403, "SignatureDoesNotMatch");
  }
  if (call.key.empty()) return OnBucket(ctx, request, call);
  const auto store = Bucket(call.bucket);
  if (!store) return Error(404, "NoSuchBucket");
  return OnObject(ctx, request, call, *store);
}

BosStandIn::Response BosStandIn::OnBucket(const Context& ctx, const ServerRequest& request,
                                          const Call& call) {
  if (request.method == "PUT") {
    MutexLock lock(mutex_);
    buckets_.try_emplace(call.bucket, std::make_shared<MemObjectStore>());
    return ServerResponse::Text(200, "");
  }
  const auto store = Bucket(call.bucket);
  if (!store) return Error(404, "NoSuchBucket");
  if (request.method == "HEAD") return ServerResponse::Text(200, "");
  if (request.method == "GET") return List(ctx, call, *store);
  if (request.method != "POST" || !call.Has("delete")) return Error(405, "MethodNotAllowed");
  const json body = json::parse(request.body, nullptr, false);
  for (const json& object : body.value("objects", json::array())) {
    if (auto deleted = store->Delete(ctx, object.value("key", "")); !deleted)
      return ErrorOf(deleted.error());
  }
  return ServerResponse::Text(200, "");
}

BosStandIn::Response BosStandIn::List(const Context& ctx, const Call& call, MemObjectStore& store) {
  // Small pages, so that every listing has several.
  constexpr std::size_t kMost = 10;
  json reply{{"name", call.bucket}, {"contents", json::array()}, {"isTruncated", false}};
  std::size_t count = 0;
  const std::size_t most =
      call.Has("maxKeys") ? std::min<std::size_t>(kMost, std::stoul(call.Get("maxKeys"))) : kMost;
  auto listed =
      store.List(ctx,
                 {.prefix = call.Get("prefix"),
                  .start_after = call.Get("marker"),
                  .delimiter = call.Get("delimiter")},
                 [&](ObjectInfo& entry) -> Result<bool> {
                   if (count++ == most) {
                     reply["isTruncated"] = true;
                     return false;
                   }
                   reply["nextMarker"] = entry.key;
                   if (entry.is_prefix) {
                     reply["commonPrefixes"].push_back({{"prefix", entry.key}});
                   } else {
                     reply["contents"].push_back({{"key", entry.key},
                                                  {"size", entry.size},
                                                  {"eTag", entry.etag},
                                                  {"lastModified", internal::IsoTime(entry.mtime)},
                                                  {"storageClass", "STANDARD"},
                                                  {"owner", {{"id", "o"}, {"displayName", "o"}}}});
                   }
                   return true;
                 });
  if (!listed) return ErrorOf(listed.error());
  if (!reply["isTruncated"].get<bool>()) reply.erase("nextMarker");
  return ServerResponse::Json(200, reply.dump());
}

BosStandIn::Response BosStandIn::OnObject(const Context& ctx, const ServerRequest& request,
                                          const Call& call, MemObjectStore& store) {
  if (request.method == "GET" || request.method == "HEAD") return OnRead(ctx, request, call, store);
  if (request.method == "PUT") return OnPut(ctx, request, call, store);
  if (request.method == "POST") return OnPost(ctx, request, call, store);
  if (request.method != "DELETE") return Error(405, "MethodNotAllowed");
  if (call.Has("uploadId")) {
    auto aborted = store.AbortUpload(ctx, call.key, call.Get("uploadId"));
    return aborted ? ServerResponse::Text(204, "") : ErrorOf(aborted.error());
  }
  if (!store.Head(ctx, call.key)) return Error(404, "NoSuchKey");
  auto deleted = store.Delete(ctx, call.key);
  return deleted ? ServerResponse::Text(204, "") : ErrorOf(deleted.error());
}

BosStandIn::Response BosStandIn::OnRead(const Context& ctx, const ServerRequest& request,
                                        const Call& call, MemObjectStore& store) {
  auto info = store.Head(ctx, call.key);
  if (!info) return ErrorOf(info.error());
  GetOptions options;
  std::string if_match(request.headers.Get("If-Match").value_or(""));
  std::erase(if_match, '"');
  options.if_match = if_match;
  int status = 200;
  std::string range(request.headers.Get("Range").value_or(""));
  if (range.starts_with("bytes=")) {
    status = 206;
    const std::size_t dash = range.find('-');
    options.range.offset = std::stoull(range.substr(6, dash - 6));
    if (options.range.offset >= info->size) return Error(416, "InvalidRange");
    if (dash + 1 < range.size())
      options.range.length = std::stoull(range.substr(dash + 1)) - options.range.offset + 1;
  }
  std::string content(info->size, '\0');
  auto got = store.Get(ctx, call.key, options, std::as_writable_bytes(std::span(content)));
  if (!got) return ErrorOf(got.error());
  content.resize(got->size);
  ServerResponse response{.status = status};
  if (status == 206) {
    response.headers.Add("Content-Range",
                         fmt::format("bytes {}-{}/{}", options.range.offset,
                                     options.range.offset + got->size - 1, info->size));
  }
  response.headers.Add("ETag", "\"" + got->etag + "\"");
  response.headers.Add("Last-Modified", HttpTime(info->mtime));
  response.headers.Add("Content-Type", "application/octet-stream");
  if (got->crc32c) response.headers.Add("x-bce-meta-crc32c", fmt::to_string(*got->crc32c));
  response.body = std::move(content);
  return response;
}

BosStandIn::Response BosStandIn::OnPut(const Context& ctx, const ServerRequest& request,
                                       const Call& call, MemObjectStore& store) {
  ServerResponse response{.status = 200};
  if (call.Has("uploadId")) {
    auto part = store.UploadPart(ctx, call.key, call.Get("uploadId"),
                                 std::stoi(call.Get("partNumber")), AsBytes(request.body));
    if (!part) return ErrorOf(part.error());
    response.headers.Add("ETag", "\"" + part->etag + "\"");
    return response;
  }
  if (const auto source = request.headers.Get("x-bce-copy-source")) {
    const std::string path = UrlDecode(*source).value_or("");
    auto copied = store.Copy(ctx, path.substr(call.bucket.size() + 2), call.key);
    if (!copied) return ErrorOf(copied.error());
    return ServerResponse::Json(
        200, json{{"eTag", "x"}, {"lastModified", "2024-05-06T07:08:09Z"}}.dump());
  }
  PutOptions options;
  if (const auto crc = request.headers.Get("x-bce-meta-crc32c")) {
    options.crc32c = static_cast<std::uint32_t>(std::stoul(std::string(*crc)));
  }
  auto put = store.Put(ctx, call.key, AsBytes(request.body), options);
  if (!put) return ErrorOf(put.error());
  response.headers.Add("ETag", "\"" + store.Head(ctx, call.key)->etag + "\"");
  return response;
}

BosStandIn::Response BosStandIn::OnPost(const Context& ctx, const ServerRequest& request,
                                        const Call& call, MemObjectStore& store) {
  if (call.Has("uploads")) {
    auto id = store.CreateUpload(ctx, call.key, {});
    if (!id) return ErrorOf(id.error());
    return ServerResponse::Json(
        200, json{{"bucket", call.bucket}, {"key", call.key}, {"uploadId", *id}}.dump());
  }
  std::vector<UploadedPart> parts;
  const json body = json::parse(request.body, nullptr, false);
  for (const json& part : body.value("parts", json::array())) {
    parts.push_back({part.value("partNumber", 0), part.value("eTag", ""), 0});
  }
  auto completed = store.CompleteUpload(ctx, call.key, call.Get("uploadId"), parts);
  if (!completed) return ErrorOf(completed.error());
  return ServerResponse::Json(
      200, json{{"bucket", call.bucket}, {"key", call.key}, {"eTag", "x"}}.dump());
}

}  // namespace paddleop::volume::object::testing
