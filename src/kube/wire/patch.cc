#include "kube/wire/patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace paddleop::kube {
namespace {

using Json = nlohmann::json;

Result<Json> Parse(std::string_view text, std::string_view what) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return Fail(Code::kInvalid, "{}: not JSON", what);
  return json;
}

// The merge patch from `before` to `after`, both objects; empty if they are equal.
Json Difference(const Json& before, const Json& after) {
  Json patch = Json::object();
  for (const auto& [key, value] : after.items()) {
    const auto old = before.find(key);
    if (old == before.end()) {
      if (!value.is_null()) patch[key] = value;
    } else if (old->is_object() && value.is_object()) {
      if (Json inner = Difference(*old, value); !inner.empty()) patch[key] = std::move(inner);
    } else if (*old != value) {
      patch[key] = value;
    }
  }
  for (const auto& [key, value] : before.items()) {
    if (!after.contains(key) && !value.is_null()) patch[key] = nullptr;
  }
  return patch;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

JsonPatch& JsonPatch::Test(std::string_view path, std::string_view value_json) {
  operations_.push_back(
      fmt::format(R"({{"op":"test","path":{},"value":{}}})", JsonString(path), value_json));
  return *this;
}

JsonPatch& JsonPatch::Add(std::string_view path, std::string_view value_json) {
  operations_.push_back(
      fmt::format(R"({{"op":"add","path":{},"value":{}}})", JsonString(path), value_json));
  return *this;
}

JsonPatch& JsonPatch::Replace(std::string_view path, std::string_view value_json) {
  operations_.push_back(
      fmt::format(R"({{"op":"replace","path":{},"value":{}}})", JsonString(path), value_json));
  return *this;
}

JsonPatch& JsonPatch::Remove(std::string_view path) {
  operations_.push_back(fmt::format(R"({{"op":"remove","path":{}}})", JsonString(path)));
  return *this;
}

ObjectPatch JsonPatch::Build(std::string subresource) const {
  return {.type = PatchType::kJson,
          .body = fmt::format("[{}]", fmt::join(operations_, ",")),
          .subresource = std::move(subresource),
          .preconditions = {}};
}

std::string JsonString(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

std::string PointerPart(std::string_view part) {
  std::string out;
  for (const char c : part) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

ObjectPatch MergePatch(std::string body, std::string subresource, Preconditions preconditions) {
  return {.type = PatchType::kMerge,
          .body = std::move(body),
          .subresource = std::move(subresource),
          .preconditions = std::move(preconditions)};
}

Result<std::optional<std::string>> MergeDifference(std::string_view before,
                                                   std::string_view after) {
  ASSIGN_OR_RETURN(const Json old, Parse(before, "state before"));
  ASSIGN_OR_RETURN(const Json now, Parse(after, "state after"));
  if (!old.is_object() || !now.is_object())
    return Fail(Code::kInvalid, "difference of states that are no objects");
  const Json patch = Difference(old, now);
  if (patch.empty()) return std::optional<std::string>();
  return std::optional<std::string>(Dump(patch));
}

Result<std::string> PatchBody(const ObjectPatch& patch) {
  const Preconditions& expected = patch.preconditions;
  if (expected.empty()) return patch.body;
  ASSIGN_OR_RETURN(Json json, Parse(patch.body, "patch"));
  if (patch.type != PatchType::kJson) {
    if (!json.is_object()) return Fail(Code::kInvalid, "merge patch: not an object");
    // The server compares both with the object it has and answers 409.
    if (!expected.uid.empty()) json["metadata"]["uid"] = expected.uid;
    if (!expected.resource_version.empty())
      json["metadata"]["resourceVersion"] = expected.resource_version;
    return Dump(json);
  }
  if (!json.is_array()) return Fail(Code::kInvalid, "JSON patch: not a list of operations");
  Json all = Json::array();
  const auto test = [&](const char* path, const std::string& value) {
    if (!value.empty()) all.push_back({{"op", "test"}, {"path", path}, {"value", value}});
  };
  test("/metadata/uid", expected.uid);
  test("/metadata/resourceVersion", expected.resource_version);
  for (Json& operation : json) all.push_back(std::move(operation));
  return Dump(all);
}

bool HasTest(std::string_view json_patch) {
  const Json json = Json::parse(json_patch, nullptr, false);
  return json.is_array() && std::ranges::any_of(json, [](const Json& operation) {
           return operation.is_object() && operation.value("op", Json()) == "test";
         });
}

std::string_view PatchContentType(PatchType type) {
  switch (type) {
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kStrategic:
      return "application/strategic-merge-patch+json";
  }
  return "";
}

}  // namespace paddleop::kube
