#include <iostream>
#include <nlohmann/json.hpp>

#include "api_client.h"
#include "base/crypto.h"

namespace paddleop::cmd {
namespace {

using api::Json;

// What the object was when it was last applied, so that a field taken out of the file is taken out
// of the object; kubectl keeps it in the same place.
constexpr char kLastApplied[] = "kubectl.kubernetes.io/last-applied-configuration";

constexpr int kApplyTries = 10;

// The merge patch that brings `live` to `wanted`; what is in neither `applied` nor `wanted` stays.
Json Difference(const Json& applied, const Json& wanted, const Json& live) {
  Json patch = Json::object();
  for (const auto& [name, value] : wanted.items()) {
    const Json now = live.is_object() ? live.value(name, Json()) : Json();
    const Json then = applied.is_object() ? applied.value(name, Json()) : Json();
    if (value.is_object() && now.is_object()) {
      Json inner = Difference(then, value, now);
      if (!inner.empty()) patch[name] = std::move(inner);
    } else if (value != now) {
      patch[name] = value;
    }
  }
  if (applied.is_object()) {
    for (const auto& [name, value] : applied.items()) {
      if (!wanted.contains(name) && live.is_object() && live.contains(name)) patch[name] = nullptr;
    }
  }
  return patch;
}

// "created", "configured" or "unchanged". kConflict if somebody changed it between our look and our
// patch: then nobody could say which of the last two it was.
Result<std::string> CreateOrPatch(const Context& ctx, ApiClient& client, const std::string& path,
                                  const std::string& name, const Json& object) {
  const auto live = client.DoJson(ctx, {.target = path + "/" + UrlEncode(name)});
  if (!live && !IsNotFound(live.error())) return std::unexpected(live.error());
  if (!live) {
    RETURN_IF_ERROR(client.Do(ctx, {.method = "POST",
                                    .target = path + "?fieldValidation=Strict",
                                    .body = api::DumpJson(object)}));
    return "created";
  }
  Json applied = Json::object();
  const Json annotations = live->at("metadata").value("annotations", Json::object());
  if (annotations.contains(kLastApplied) && annotations[kLastApplied].is_string()) {
    if (auto read = api::ParseJson(annotations[kLastApplied].get<std::string>())) applied = *read;
  }
  Json patch = Difference(applied, object, *live);
  if (patch.empty()) return "unchanged";
  const std::string version = live->at("metadata").value("resourceVersion", "");
  patch["metadata"]["resourceVersion"] = version;
  ASSIGN_OR_RETURN(
      const Json after,
      client.DoJson(ctx, {.method = "PATCH",
                          .target = path + "/" + UrlEncode(name) + "?fieldValidation=Strict",
                          .body = api::DumpJson(patch),
                          .content_type = "application/merge-patch+json"}));
  const bool same = after.at("metadata").value("resourceVersion", "") == version;
  return same ? "unchanged" : "configured";
}

Result<std::string> ApplyOne(const Context& ctx, ApiClient& client, Json object) {
  ASSIGN_OR_RETURN(const ApiResource resource,
                   client.FindKind(ctx, object["apiVersion"], object["kind"]));
  Json& metadata = object["metadata"];
  if (!metadata.is_object() || !metadata.contains("name") || !metadata["name"].is_string()) {
    return Fail(Code::kInvalid, "{}: metadata.name is missing", resource.Label());
  }
  const std::string name = metadata["name"];
  const std::string ns = resource.namespaced ? metadata.value("namespace", client.ns()) : "";
  if (resource.namespaced) metadata["namespace"] = ns;
  // kubectl writes the member even where it is empty; what it recorded and what we record must look
  // the same.
  Json& annotations_wanted = metadata["annotations"];
  if (!annotations_wanted.is_object()) annotations_wanted = Json::object();
  annotations_wanted.erase(kLastApplied);
  const std::string applied_text = api::DumpJson(object) + "\n";
  object["metadata"]["annotations"][kLastApplied] = applied_text;
  for (int tries = 1;; ++tries) {
    auto done = CreateOrPatch(ctx, client, ApiClient::Path(resource, ns, ""), name, object);
    if (done) return fmt::format("{}/{} {}", resource.Label(), name, *done);
    if (!IsConflict(done.error()) || tries >= kApplyTries)
      return std::unexpected(std::move(done).error());
  }
}

}  // namespace

int RunApply(const ClientFlags& flags) {
  const Context ctx = Context::Background();
  auto objects = ReadManifests(flags.files);
  if (!objects) return ClientFailed("apply", objects.error());
  auto client = ApiClient::Connect(flags);
  if (!client) return ClientFailed("apply", client.error());
  int code = 0;
  for (Json& object : *objects) {
    auto done = ApplyOne(ctx, **client, std::move(object));
    if (done) {
      std::cout << *done << '\n' << std::flush;
    } else {
      ClientFailed("apply", done.error());
      code = 1;
    }
  }
  return code;
}

}  // namespace paddleop::cmd
