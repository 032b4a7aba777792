// What is below an object: binding, eviction, scale.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "standalone/apiserver/handlers.h"
#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/internal/request_body.h"
#include "standalone/apiserver/patch.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

Json ScaleOf(const StoredObject& object) {
  const Json set = Json::parse(object.json);
  Json metadata = Json::object();
  for (const char* field : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
    metadata[field] = TextAt(set, std::string("metadata.") + field);
  }
  std::string selector;
  if (const Json* labels = ValueAt(set, "spec.selector.matchLabels")) {
    for (const auto& [key, value] : labels->items()) {
      selector +=
          fmt::format("{}{}={}", selector.empty() ? "" : ",", key, value.get<std::string>());
    }
  }
  return {{"apiVersion", "autoscaling/v1"},
          {"kind", "Scale"},
          {"metadata", std::move(metadata)},
          {"spec", {{"replicas", NumberAt(set, "spec.replicas")}}},
          {"status", {{"replicas", NumberAt(set, "status.replicas")}, {"selector", selector}}}};
}

}  // namespace

Handlers::Response Handlers::Bind(const net::ServerRequest& request, const ResourcePath& path) {
  ASSIGN_OR_RETURN(const RequestBody body, ReadBody(request));
  const std::string node = TextAt(body.json, "target.name");
  if (node.empty()) return BadRequest("target.name must name a node");
  RETURN_IF_ERROR(parts_.objects->Bind(path.key(), node, TextAt(body.json, "metadata.uid")));
  return net::ServerResponse::Json(
      201, R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201})");
}

Handlers::Response Handlers::Evict(const net::ServerRequest& request, const ResourcePath& path) {
  ASSIGN_OR_RETURN(const RequestBody body, ReadBody(request));
  DeleteRequest wish;
  if (const Json* grace = ValueAt(body.json, "deleteOptions.gracePeriodSeconds");
      grace != nullptr && grace->is_number_integer()) {
    wish.grace_seconds = grace->get<std::int64_t>();
  }
  wish.uid = TextAt(body.json, "deleteOptions.preconditions.uid");
  ASSIGN_OR_RETURN(const WriteOptions options, ReadWriteOptions(request));
  wish.dry_run = options.dry_run;
  RETURN_IF_ERROR(parts_.objects->Delete(*path.kind, path.key(), wish));
  return net::ServerResponse::Json(
      201, R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201})");
}

Handlers::Response Handlers::Scale(const net::ServerRequest& request, const ResourcePath& path) {
  ASSIGN_OR_RETURN(const ObjectPtr object, parts_.objects->Get(*path.kind, path.key()));
  const Json scale = ScaleOf(*object);
  if (request.method == "GET") return net::ServerResponse::Json(200, api::DumpJson(scale));
  ASSIGN_OR_RETURN(const WriteOptions options, ReadWriteOptions(request));
  Json wish;
  if (request.method == "PUT") {
    ASSIGN_OR_RETURN(RequestBody body, ReadBody(request));
    wish = std::move(body.json);
  } else if (request.method == "PATCH") {
    ASSIGN_OR_RETURN(
        wish,
        ApplyPatch(*path.kind, parts_.objects->schemas().Named("io.k8s.api.autoscaling.v1.Scale"),
                   scale, ContentType(request), request.body));
  } else {
    return MethodNotAllowed();
  }
  Json patch = {{"spec", {{"replicas", NumberAt(wish, "spec.replicas")}}}};
  const std::string version = TextAt(wish, "metadata.resourceVersion");
  if (request.method == "PUT" && !version.empty()) patch["metadata"]["resourceVersion"] = version;
  ASSIGN_OR_RETURN(const ObjectPtr changed,
                   parts_.objects->Patch(*path.kind, path.key(), "", "application/merge-patch+json",
                                         patch.dump(), options));
  return net::ServerResponse::Json(200, api::DumpJson(ScaleOf(*changed)));
}

}  // namespace paddleop::standalone::apiserver
