#include "standalone/apiserver/handlers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "standalone/apiserver/discovery.h"
#include "standalone/apiserver/internal/request_body.h"
#include "standalone/apiserver/node_proxy.h"
#include "standalone/apiserver/openapi.h"
#include "standalone/apiserver/table.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr char kVersion[] =
    R"({"major":"1","minor":"33","gitVersion":"v1.33.0+paddle-operator-standalone","gitCommit":"",)"
    R"("gitTreeState":"clean","buildDate":"1970-01-01T00:00:00Z","goVersion":"","compiler":"",)"
    R"("platform":"linux/amd64"})";

void AddWarnings(net::ServerResponse& response, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    response.headers.Add("Warning", "299 - " + Quoted(warning));
  }
}

bool IsHealthPath(std::string_view path) {
  for (const std::string_view known : {"/healthz", "/livez", "/readyz"}) {
    if (path == known || (path.starts_with(known) && path[known.size()] == '/')) return true;
  }
  return false;
}

std::string SuccessBody(const StoredObject& object) {
  Json details = {{"name", object.name}, {"kind", object.kind->type.plural}, {"uid", object.uid}};
  if (!object.kind->type.group.empty()) details["group"] = object.kind->type.group;
  return api::DumpJson({{"kind", "Status"},
                        {"apiVersion", "v1"},
                        {"metadata", Json::object()},
                        {"status", "Success"},
                        {"details", std::move(details)}}) +
         "\n";
}

}  // namespace

Handlers::Handlers(Parts parts, const Secret& token)
    : parts_(parts), authorization_("Bearer " + token.Reveal()) {}

net::ServerResponse Handlers::Handle(const Context& ctx, const net::ServerRequest& request) {
  auto answer = Route(ctx, request);
  if (answer) return *std::move(answer);
  return net::ServerResponse::Json(answer.error().code, answer.error().Body());
}

Handlers::Response Handlers::Route(const Context& ctx, const net::ServerRequest& request) {
  std::string path = request.path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (IsHealthPath(path)) return net::ServerResponse::Text(200, "ok");
  if (path == "/version") return net::ServerResponse::Json(200, kVersion);
  const auto given = request.headers.Get("authorization");
  if (!given || !ConstantTimeEquals(*given, authorization_)) {
    return Refusal(ApiError{401, "Unauthorized", "Unauthorized", "", "", "", {}});
  }
  if (const auto resource = ParseResourcePath(path)) return Resource(ctx, request, *resource);
  if (request.method != "GET") return NoSuchResource();
  return Document(request, path);
}

Handlers::Response Handlers::Document(const net::ServerRequest& request, const std::string& path) {
  if (path == "/metrics") return net::ServerResponse::Text(200, parts_.metrics->Serialize());
  const auto accept = request.headers.Get("accept").value_or("");
  const bool aggregated = accept.find("as=APIGroupDiscoveryList") != std::string_view::npos &&
                          accept.find("v=v2") != std::string_view::npos;
  if (aggregated && (path == "/api" || path == "/apis")) {
    auto response =
        net::ServerResponse::Json(200, api::DumpJson(AggregatedDiscovery(path == "/api")));
    response.headers.Set("Content-Type",
                         "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    return response;
  }
  if (path == "/openapi/v2") {
    // Clients that do not find a kind in version 3 ask version 2: an empty document, which both in
    // protobuf and to kubectl means that it is not there either.
    auto response = net::ServerResponse::Text(200, "");
    response.headers.Set("Content-Type",
                         "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    return response;
  }
  if (path == "/openapi/v3") return net::ServerResponse::Json(200, OpenApiIndex());
  if (path.starts_with("/openapi/v3/")) {
    auto document = OpenApiDocument(std::string_view(path).substr(12));
    if (!document) return NoSuchResource();
    auto response = net::ServerResponse::Json(200, *std::move(document));
    if (const auto hash = request.Query("hash")) {
      // The address changes with the content, so that a client may keep it for good.
      response.headers.Set("Cache-Control", "public, immutable");
      response.headers.Set("Etag", Quoted(*hash));
      response.headers.Set("Expires", "Thu, 31 Dec 2099 23:59:59 GMT");
    }
    return response;
  }
  if (const auto document = DiscoveryDocument(path)) {
    return net::ServerResponse::Json(200, api::DumpJson(*document));
  }
  return NoSuchResource();
}

Handlers::Response Handlers::Resource(const Context& ctx, const net::ServerRequest& request,
                                      const ResourcePath& path) {
  const std::string& method = request.method;
  const bool reads = method == "GET" || method == "HEAD";
  if (path.kind->read_only && !reads) return MethodNotAllowed();
  if (!path.subresource.empty()) return Subresource(ctx, request, path);
  if (path.name.empty()) {
    if (reads) return List(request, path);
    if (method == "POST") return Create(request, path);
    if (method == "DELETE" && path.kind->type.kind != "Namespace") return DeleteAll(request, path);
    return MethodNotAllowed();
  }
  if (reads) return Get(request, path);
  if (method == "PUT") return Update(request, path);
  if (method == "PATCH") return Patch(request, path);
  if (method == "DELETE") return Delete(request, path);
  return MethodNotAllowed();
}

Handlers::Response Handlers::Subresource(const Context& ctx, const net::ServerRequest& request,
                                         const ResourcePath& path) {
  const auto& subs = path.kind->subresources;
  const bool known = std::any_of(subs.begin(), subs.end(),
                                 [&](const auto& sub) { return sub.name == path.subresource; });
  if (!known) return NoSuchResource();
  const std::string& method = request.method;
  if (path.subresource == "status") {
    if (method == "GET") return Get(request, path);
    if (method == "PUT") return Update(request, path);
    if (method == "PATCH") return Patch(request, path);
    return MethodNotAllowed();
  }
  if (path.subresource == "scale") return Scale(request, path);
  if (path.subresource == "binding") {
    return method == "POST" ? Bind(request, path) : Response(MethodNotAllowed());
  }
  if (path.subresource == "eviction") {
    return method == "POST" ? Evict(request, path) : Response(MethodNotAllowed());
  }
  ASSIGN_OR_RETURN(const ObjectPtr pod, parts_.objects->Get(*path.kind, path.key()));
  if (path.subresource == "log") return parts_.nodes->Logs(ctx, request, *pod);
  return parts_.nodes->Exec(ctx, request, *pod, path.subresource);
}

net::ServerResponse Handlers::Show(const net::ServerRequest& request, const StoredObject& object,
                                   int status) const {
  switch (ViewOf(request)) {
    case View::kTable: {
      const auto with = request.Query("includeObject").value_or("");
      const RowObject row = with == "None"     ? RowObject::kNone
                            : with == "Object" ? RowObject::kObject
                                               : RowObject::kMetadata;
      return net::ServerResponse::Json(
          status, MakeTableText(*object.kind, object, row, parts_.clock->WallNow()));
    }
    case View::kMetadata:
      return net::ServerResponse::Json(status, api::DumpJson(PartialObject(object)));
    case View::kObject:
      break;
  }
  return net::ServerResponse::Json(status, object.json + "\n");
}

Handlers::Response Handlers::Get(const net::ServerRequest& request, const ResourcePath& path) {
  ASSIGN_OR_RETURN(const ObjectPtr object, parts_.objects->Get(*path.kind, path.key()));
  return Show(request, *object);
}

Handlers::Response Handlers::Create(const net::ServerRequest& request, const ResourcePath& path) {
  if (path.kind->type.namespaced && path.ns.empty()) return MethodNotAllowed();
  ASSIGN_OR_RETURN(WriteOptions options, ReadWriteOptions(request));
  ASSIGN_OR_RETURN(RequestBody body, ReadObject(request, *path.kind, path.ns, ""));
  std::vector<std::string> warnings;
  options.warnings = &warnings;
  options.duplicates = std::move(body.duplicates);
  ASSIGN_OR_RETURN(const ObjectPtr made,
                   parts_.objects->Create(*path.kind, path.ns, std::move(body.json), options));
  auto response = Show(request, *made, 201);
  AddWarnings(response, warnings);
  return response;
}

Handlers::Response Handlers::Update(const net::ServerRequest& request, const ResourcePath& path) {
  ASSIGN_OR_RETURN(WriteOptions options, ReadWriteOptions(request));
  ASSIGN_OR_RETURN(RequestBody body, ReadObject(request, *path.kind, path.ns, path.name));
  std::vector<std::string> warnings;
  options.warnings = &warnings;
  options.duplicates = std::move(body.duplicates);
  ASSIGN_OR_RETURN(const ObjectPtr made,
                   parts_.objects->Update(*path.kind, path.key(), path.subresource,
                                          std::move(body.json), options));
  auto response = Show(request, *made);
  AddWarnings(response, warnings);
  return response;
}

Handlers::Response Handlers::Patch(const net::ServerRequest& request, const ResourcePath& path) {
  ASSIGN_OR_RETURN(WriteOptions options, ReadWriteOptions(request));
  std::vector<std::string> warnings;
  options.warnings = &warnings;
  ASSIGN_OR_RETURN(const ObjectPtr made,
                   parts_.objects->Patch(*path.kind, path.key(), path.subresource,
                                         ContentType(request), request.body, options));
  auto response = Show(request, *made);
  AddWarnings(response, warnings);
  return response;
}

Handlers::Response Handlers::Delete(const net::ServerRequest& request, const ResourcePath& path) {
  ASSIGN_OR_RETURN(const DeleteRequest wish, ReadDeleteRequest(request));
  ASSIGN_OR_RETURN(const auto deleted, parts_.objects->Delete(*path.kind, path.key(), wish));
  if (deleted.gone && path.kind->type.kind != "Pod") {
    return net::ServerResponse::Json(200, SuccessBody(*deleted.object));
  }
  return Show(request, *deleted.object);
}

Handlers::Response Handlers::DeleteAll(const net::ServerRequest& request,
                                       const ResourcePath& path) {
  ASSIGN_OR_RETURN(const DeleteRequest wish, ReadDeleteRequest(request));
  ASSIGN_OR_RETURN(const ListQuery query, ReadListQuery(request, *path.kind, ""));
  if (path.kind->type.namespaced && path.ns.empty()) return MethodNotAllowed();
  const auto all = parts_.objects->List(*path.kind, path.ns);
  std::string items;
  for (const ObjectPtr& object : all.objects) {
    if (!query.selects(*object)) continue;
    DeleteRequest one = wish;
    one.uid = object->uid;
    const auto deleted = parts_.objects->Delete(*path.kind, object->key(), one);
    if (!deleted && deleted.error().code != 404 && deleted.error().code != 409) {
      return Refusal(deleted.error());
    }
    items += (items.empty() ? "" : ",") + object->json;
  }
  return net::ServerResponse::Json(
      200,
      fmt::format(
          R"({{"apiVersion":"{}","items":[{}],"kind":"{}List","metadata":{{"resourceVersion":"{}"}}}})",
          path.kind->type.ApiVersion(), items, path.kind->type.kind,
          parts_.objects->store().revision()));
}

}  // namespace paddleop::standalone::apiserver
