#include "kube/wire/request.h"

#include <fmt/format.h>

#include <vector>

#include "base/crypto.h"

namespace paddleop::kube {
namespace {

// /api/v1/namespaces/NS/pods, /apis/GROUP/VERSION/RESOURCE
std::string CollectionPath(const GroupVersionResource& resource, const std::string& ns) {
  std::string path = resource.group.empty()
                         ? fmt::format("/api/{}", resource.version)
                         : fmt::format("/apis/{}/{}", resource.group, resource.version);
  if (resource.namespaced && !ns.empty()) path += "/namespaces/" + UrlEncode(ns);
  return fmt::format("{}/{}", path, resource.plural);
}

std::string ObjectPath(const GroupVersionResource& resource, const ObjectKey& key,
                       std::string_view subresource = "") {
  std::string path = CollectionPath(resource, key.ns) + "/" + UrlEncode(key.name);
  if (!subresource.empty()) path += fmt::format("/{}", subresource);
  return path;
}

class Query {
 public:
  void Add(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    text_ += fmt::format("{}{}={}", text_.empty() ? '?' : '&', name, UrlEncode(value));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string What(std::string_view verb, const GroupVersionResource& resource,
                 const std::string& object) {
  return fmt::format("{} {}{}{}", verb, ResourceName(resource), object.empty() ? "" : " ", object);
}

}  // namespace

WireRequest GetRequest(const GroupVersionResource& resource, const ObjectKey& key) {
  return {.verb = "get",
          .method = "GET",
          .target = ObjectPath(resource, key),
          .content_type = {},
          .body = {},
          .what = What("get", resource, key.ToString())};
}

WireRequest ListRequest(const GroupVersionResource& resource, const std::string& ns,
                        const ListOptions& options) {
  Query query;
  query.Add("labelSelector", options.label_selector);
  query.Add("fieldSelector", options.field_selector);
  if (options.limit > 0) query.Add("limit", std::to_string(options.limit));
  query.Add("continue", options.continue_token);
  return {.verb = "list",
          .method = "GET",
          .target = CollectionPath(resource, ns) + query.text(),
          .content_type = {},
          .body = {},
          .what = What("list", resource, ns)};
}

WireRequest WatchRequest(const GroupVersionResource& resource, const std::string& ns,
                         const WatchOptions& options) {
  Query query;
  query.Add("watch", "true");
  query.Add("labelSelector", options.label_selector);
  query.Add("fieldSelector", options.field_selector);
  query.Add("resourceVersion", options.resource_version);
  if (options.bookmarks) query.Add("allowWatchBookmarks", "true");
  query.Add("timeoutSeconds", std::to_string(options.timeout.count()));
  return {.verb = "watch",
          .method = "GET",
          .target = CollectionPath(resource, ns) + query.text(),
          .content_type = {},
          .body = {},
          .what = What("watch", resource, ns)};
}

WireRequest CreateRequest(const GroupVersionResource& resource, const std::string& ns,
                          std::string_view json) {
  return {.verb = "create",
          .method = "POST",
          .target = CollectionPath(resource, ns),
          .content_type = "application/json",
          .body = std::string(json),
          .what = What("create", resource, ns)};
}

Result<WireRequest> PatchRequest(const GroupVersionResource& resource, const ObjectKey& key,
                                 const ObjectPatch& patch) {
  WireRequest request{.verb = "patch",
                      .method = "PATCH",
                      .target = ObjectPath(resource, key, patch.subresource),
                      .content_type = std::string(PatchContentType(patch.type)),
                      .body = {},
                      .what = What("patch", resource, key.ToString())};
  auto body = PatchBody(patch);
  if (!body) return std::unexpected(std::move(body).error().Wrap(request.what));
  request.body = *std::move(body);
  request.tests = patch.type == PatchType::kJson && HasTest(request.body);
  return request;
}

WireRequest UpdateRequest(const GroupVersionResource& resource, const ObjectKey& key,
                          std::string_view json, std::string_view subresource) {
  return {.verb = "update",
          .method = "PUT",
          .target = ObjectPath(resource, key, subresource),
          .content_type = "application/json",
          .body = std::string(json),
          .what = What("update", resource, key.ToString())};
}

WireRequest CreateSubresourceRequest(const GroupVersionResource& resource, const ObjectKey& key,
                                     std::string_view subresource, std::string_view json) {
  return {.verb = "create",
          .method = "POST",
          .target = ObjectPath(resource, key, subresource),
          .content_type = "application/json",
          .body = std::string(json),
          .what = fmt::format("{}/{}", What("create", resource, key.ToString()), subresource)};
}

WireRequest DeleteRequest(const GroupVersionResource& resource, const ObjectKey& key,
                          const DeleteOptions& options) {
  std::string body = R"({"apiVersion":"v1","kind":"DeleteOptions")";
  switch (options.propagation) {
    case Propagation::kServerDefault:
      break;
    case Propagation::kBackground:
      body += R"(,"propagationPolicy":"Background")";
      break;
    case Propagation::kForeground:
      body += R"(,"propagationPolicy":"Foreground")";
      break;
    case Propagation::kOrphan:
      body += R"(,"propagationPolicy":"Orphan")";
      break;
  }
  if (options.grace_period)
    body += fmt::format(R"(,"gracePeriodSeconds":{})", options.grace_period->count());
  if (!options.preconditions.empty()) {
    std::vector<std::string> parts;
    if (!options.preconditions.uid.empty())
      parts.push_back(fmt::format(R"("uid":{})", JsonString(options.preconditions.uid)));
    if (!options.preconditions.resource_version.empty())
      parts.push_back(fmt::format(R"("resourceVersion":{})",
                                  JsonString(options.preconditions.resource_version)));
    body += fmt::format(R"(,"preconditions":{{{}}})", fmt::join(parts, ","));
  }
  body += "}";
  return {.verb = "delete",
          .method = "DELETE",
          .target = ObjectPath(resource, key),
          .content_type = "application/json",
          .body = std::move(body),
          .what = What("delete", resource, key.ToString())};
}

}  // namespace paddleop::kube
