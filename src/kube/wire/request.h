// Requests as values: method, path, query and body, without a socket.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/wire/options.h"
#include "kube/wire/patch.h"
#include "kube/wire/resource.h"

namespace paddleop::kube {

struct WireRequest {
  std::string verb;    // as RBAC and metrics call it: "list"
  std::string method;  // HTTP's
  std::string target;  // "/api/v1/namespaces/default/pods?limit=500"
  std::string content_type;
  std::string body;
  std::string what;    // for messages: "list pods default"
  bool tests = false;  // a JSON patch with a test
};

WireRequest GetRequest(const GroupVersionResource& resource, const ObjectKey& key);
WireRequest ListRequest(const GroupVersionResource& resource, const std::string& ns,
                        const ListOptions& options);
WireRequest WatchRequest(const GroupVersionResource& resource, const std::string& ns,
                         const WatchOptions& options);
WireRequest CreateRequest(const GroupVersionResource& resource, const std::string& ns,
                          std::string_view json);
Result<WireRequest> PatchRequest(const GroupVersionResource& resource, const ObjectKey& key,
                                 const ObjectPatch& patch);
WireRequest UpdateRequest(const GroupVersionResource& resource, const ObjectKey& key,
                          std::string_view json, std::string_view subresource);
WireRequest CreateSubresourceRequest(const GroupVersionResource& resource, const ObjectKey& key,
                                     std::string_view subresource, std::string_view json);
WireRequest DeleteRequest(const GroupVersionResource& resource, const ObjectKey& key,
                          const DeleteOptions& options);

}  // namespace paddleop::kube
