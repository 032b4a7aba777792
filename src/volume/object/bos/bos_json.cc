#include "volume/object/bos/bos_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "volume/object/internal/times.h"

namespace paddleop::volume::object {
namespace {

using internal::RestError;
using nlohmann::json;

Result<json> Parse(std::string_view body) {
  if (body.size() > kMaxBosJsonBytes) {
    return Fail(Code::kCorrupt, "a JSON answer of {} bytes, more than the limit of {}", body.size(),
                kMaxBosJsonBytes);
  }
  json value = json::parse(body, nullptr, false);
  if (!value.is_object()) return Fail(Code::kCorrupt, "an answer that is not a JSON object");
  return value;
}

std::string Text(const json& value, const char* member) {
  const auto found = value.find(member);
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

// The array of that name; an empty one if there is none.
const json& Array(const json& value, const char* member) {
  static const json kEmpty = json::array();
  const auto found = value.find(member);
  return found != value.end() && found->is_array() ? *found : kEmpty;
}

RestError ErrorOf(const json& value) {
  return {.code = Text(value, "code"),
          .message = Text(value, "message"),
          .request_id = Text(value, "requestId")};
}

Result<ObjectInfo> ParseContents(const json& value) {
  ObjectInfo entry;
  entry.key = Text(value, "key");
  entry.etag = Text(value, "eTag");
  const auto size = value.find("size");
  const auto time = internal::ParseIsoTime(Text(value, "lastModified"));
  if (entry.key.empty() || size == value.end() || !size->is_number_unsigned() || !time) {
    return Fail(Code::kCorrupt, "a listing where \"{}\" has no size or no time", entry.key);
  }
  entry.size = size->get<std::uint64_t>();
  entry.mtime = *time;
  return entry;
}

}  // namespace

std::optional<RestError> ParseBosError(std::string_view body) {
  auto value = Parse(body);
  if (!value || Text(*value, "code").empty()) return std::nullopt;
  return ErrorOf(*value);
}

Result<internal::ListPage> ParseBosList(std::string_view body) {
  ASSIGN_OR_RETURN(const json value, Parse(body));
  if (value.find("contents") == value.end())
    return Fail(Code::kCorrupt, "an answer that is no listing");
  internal::ListPage page;
  for (const json& object : Array(value, "contents")) {
    if (!object.is_object())
      return Fail(Code::kCorrupt, "a listing with an entry that is no object");
    ASSIGN_OR_RETURN(ObjectInfo entry, ParseContents(object));
    page.entries.push_back(std::move(entry));
  }
  for (const json& prefix : Array(value, "commonPrefixes")) {
    if (!prefix.is_object())
      return Fail(Code::kCorrupt, "a listing with a prefix that is no object");
    ObjectInfo entry;
    entry.key = Text(prefix, "prefix");
    entry.is_prefix = true;
    page.entries.push_back(std::move(entry));
  }
  std::sort(page.entries.begin(), page.entries.end(),
            [](const ObjectInfo& a, const ObjectInfo& b) { return a.key < b.key; });
  const auto truncated = value.find("isTruncated");
  page.truncated = truncated != value.end() && truncated->is_boolean() && truncated->get<bool>();
  page.token = Text(value, "nextMarker");
  if (page.token.empty() && !page.entries.empty()) page.token = page.entries.back().key;
  if (page.truncated && page.token.empty()) {
    return Fail(Code::kCorrupt, "a listing that is truncated but has no marker");
  }
  return page;
}

Result<std::string> ParseBosUploadId(std::string_view body) {
  ASSIGN_OR_RETURN(const json value, Parse(body));
  std::string id = Text(value, "uploadId");
  if (id.empty()) return Fail(Code::kCorrupt, "an upload without an id");
  return id;
}

Result<std::vector<std::pair<std::string, RestError>>> ParseBosDeleteResult(std::string_view body) {
  std::vector<std::pair<std::string, RestError>> failed;
  if (body.empty()) return failed;
  ASSIGN_OR_RETURN(const json value, Parse(body));
  for (const json& error : Array(value, "errors")) {
    if (!error.is_object()) return Fail(Code::kCorrupt, "an error that is no object");
    failed.emplace_back(Text(error, "key"), ErrorOf(error));
  }
  return failed;
}

std::string BosDeleteBody(std::span<const std::string> keys) {
  json objects = json::array();
  for (const std::string& key : keys) objects.push_back({{"key", key}});
  return json{{"objects", std::move(objects)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string BosCompleteBody(std::span<const UploadedPart> parts) {
  json list = json::array();
  for (const UploadedPart& part : parts) {
    list.push_back({{"partNumber", part.number}, {"eTag", part.etag}});
  }
  return json{{"parts", std::move(list)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace paddleop::volume::object
