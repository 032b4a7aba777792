#include "standalone/apiserver/openapi.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/batch/crd.h"
#include "base/crypto.h"
#include "standalone/apiserver/discovery.h"
#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/schema.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr std::string_view kReference = "#/components/schemas/";
constexpr char kMeta[] = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
constexpr char kListMeta[] = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

Json Reference(std::string_view name) {
  return {{"$ref", std::string(kReference) + std::string(name)}};
}

const std::string& Hash() {
  static const std::string kHash =
      HexEncode(Sha256(std::string(BuiltinSchemaText()) + api::CrdManifest()));
  return kHash;
}

Json GroupVersionKind(const Kind& kind) {
  return {{"group", kind.type.group}, {"version", kind.type.version}, {"kind", kind.type.kind}};
}

Json Parameter(const char* name, const char* in, const char* type, bool required) {
  Json out = {{"name", name}, {"in", in}, {"schema", {{"type", type}, {"uniqueItems", true}}}};
  if (required) out["required"] = true;
  return out;
}

Json Content(const std::string& schema) {
  return {{"application/json", {{"schema", Reference(schema)}}}};
}

Json Operation(const Kind& kind, const char* action, const std::string& reply, bool writes) {
  Json out = {{"x-kubernetes-action", action},
              {"x-kubernetes-group-version-kind", GroupVersionKind(kind)},
              {"responses", {{"200", {{"description", "OK"}, {"content", Content(reply)}}}}}};
  if (!writes) return out;
  out["parameters"] = {Parameter("dryRun", "query", "string", false),
                       Parameter("fieldManager", "query", "string", false),
                       Parameter("fieldValidation", "query", "string", false)};
  out["requestBody"] = {{"required", true}, {"content", Content(kind.schema)}};
  return out;
}

Json PatchOperation(const Kind& kind) {
  Json out = Operation(kind, "patch", kind.schema, true);
  Json content = Json::object();
  for (const char* type : {"application/json-patch+json", "application/merge-patch+json",
                           "application/strategic-merge-patch+json"}) {
    if (kind.custom && std::string_view(type).find("strategic") != std::string_view::npos) continue;
    content[type] = {{"schema", {{"type", "object"}}}};
  }
  out["requestBody"]["content"] = std::move(content);
  return out;
}

void AddPaths(const Kind& kind, const std::string& base, Json& paths) {
  const std::string list = kind.schema + "List";
  const std::string all = fmt::format("{}/{}", base, kind.type.plural);
  const std::string some =
      kind.type.namespaced ? fmt::format("{}/namespaces/{{namespace}}/{}", base, kind.type.plural)
                           : all;
  Json where = Json::array();
  if (kind.type.namespaced) where.push_back(Parameter("namespace", "path", "string", true));
  paths[all]["get"] = Operation(kind, "list", list, false);
  paths[some]["get"] = Operation(kind, "list", list, false);
  if (!where.empty()) paths[some]["parameters"] = where;
  where.push_back(Parameter("name", "path", "string", true));
  Json& one = paths[some + "/{name}"];
  one["parameters"] = where;
  one["get"] = Operation(kind, "get", kind.schema, false);
  if (kind.read_only) return;
  paths[some]["post"] = Operation(kind, "post", kind.schema, true);
  one["put"] = Operation(kind, "put", kind.schema, true);
  one["patch"] = PatchOperation(kind);
  one["delete"] = Operation(kind, "delete", "io.k8s.apimachinery.pkg.apis.meta.v1.Status", true);
  for (const Subresource& sub : kind.subresources) {
    if (sub.name != "status" && sub.name != "scale") continue;
    Json& below = paths[fmt::format("{}/{{name}}/{}", some, sub.name)];
    below["parameters"] = where;
    below["get"] = Operation(kind, "get", kind.schema, false);
    below["put"] = Operation(kind, "put", kind.schema, true);
    below["patch"] = PatchOperation(kind);
  }
}

// As a CRD is published: with the words every object's own fields have.
Json CustomSchema(const Kind& kind, const Json& like) {
  for (const Json& definition : api::CustomResourceDefinitions()) {
    if (TextAt(definition, "metadata.name") != kind.FullName()) continue;
    Json schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for (const char* field : {"apiVersion", "kind"}) {
      schema["properties"][field] = like["properties"][field];
    }
    schema["properties"]["metadata"] = {
        {"description", like["properties"]["metadata"]["description"]},
        {"allOf", Json::array({Reference(kMeta)})}};
    return schema;
  }
  return Json::object();
}

void Collect(const Json& from, const Json& all, Json& out) {
  if (from.is_array()) {
    for (const Json& item : from) Collect(item, all, out);
  }
  if (!from.is_object()) return;
  for (const auto& [key, value] : from.items()) {
    if (key != "$ref" || !value.is_string()) {
      Collect(value, all, out);
      continue;
    }
    const std::string name = value.get<std::string>().substr(kReference.size());
    if (out.contains(name) || !all.contains(name)) continue;
    out[name] = all[name];
    Collect(all[name], all, out);
  }
}

}  // namespace

std::string OpenApiIndex() {
  Json paths = Json::object();
  for (const std::string& path : GroupVersionPaths()) {
    paths[path] = {{"serverRelativeURL", fmt::format("/openapi/v3/{}?hash={}", path, Hash())}};
  }
  return api::DumpJson({{"paths", std::move(paths)}});
}

std::optional<std::string> OpenApiDocument(std::string_view group_version) {
  Json paths = Json::object();
  Json schemas = Json::object();
  const Json all = Json::parse(BuiltinSchemaText());
  for (const Kind& kind : Kinds()) {
    const std::string base = kind.type.group.empty()
                                 ? fmt::format("api/{}", kind.type.version)
                                 : fmt::format("apis/{}/{}", kind.type.group, kind.type.version);
    if (base != group_version) continue;
    AddPaths(kind, "/" + base, paths);
    Json schema =
        kind.custom ? CustomSchema(kind, all["io.k8s.api.core.v1.Pod"]) : all[kind.schema];
    schema["x-kubernetes-group-version-kind"] = Json::array({GroupVersionKind(kind)});
    Collect(schema, all, schemas);
    schemas[kind.schema] = std::move(schema);
    Json of_list = GroupVersionKind(kind);
    of_list["kind"] = fmt::format("{}List", kind.type.kind);
    schemas[kind.schema + "List"] = {
        {"type", "object"},
        {"required", {"items"}},
        {"properties",
         {{"apiVersion", {{"type", "string"}}},
          {"kind", {{"type", "string"}}},
          {"items", {{"type", "array"}, {"items", Reference(kind.schema)}}},
          {"metadata", Reference(kListMeta)}}},
        {"x-kubernetes-group-version-kind", Json::array({of_list})}};
  }
  if (paths.empty()) return std::nullopt;
  const Json found = schemas;
  Collect(found, all, schemas);
  Collect(paths, all, schemas);
  return api::DumpJson({{"openapi", "3.0.0"},
                        {"info", {{"title", "Kubernetes"}, {"version", "1.33"}}},
                        {"paths", std::move(paths)},
                        {"components", {{"schemas", std::move(schemas)}}}});
}

}  // namespace paddleop::standalone::apiserver
