#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/status.h"
#include "kube/wire/options.h"
#include "kube/wire/patch.h"
#include "kube/wire/raw_object.h"
#include "kube/wire/resource.h"
#include "kube/wire/watch_event.h"

namespace paddleop::kube {

// Takes one event, on the thread that called Watch. An error ends the watch and is returned from
// it.
using WatchSink = std::function<Result<void>(WatchEvent event)>;

// A Kubernetes cluster as controllers see it: objects that are read, written and watched.
//
// Objects go in and come out as JSON (RawObject), so that fields nobody here has heard of survive.
// `ns` is empty for cluster-scoped resources, and for lists and watches over all namespaces.
//
// Thread-safe. Calls block until the answer, the context's deadline or its stop; a call without a
// deadline gets the client's own. Codes a caller can act on: kNotFound; kAlreadyExists (Create);
// kConflict (the object changed, or a precondition or JSON-patch test failed: read again); kInvalid
// (the server refused the object; the message names the fields); kPermission; kExpired (the
// resourceVersion or continue token is too old: list again); kUnavailable (away or overloaded: try
// again later). Overload that the server asked us to wait out (429, Retry-After) has been waited
// out within the deadline.
class ClusterClient {
 public:
  virtual ~ClusterClient() = default;

  virtual Result<RawObject> Get(const Context& ctx, const GroupVersionResource& resource,
                                const ObjectKey& key) = 0;

  // One page. Hand the continue token back for the next one; kExpired if that took too long.
  virtual Result<ListPage> List(const Context& ctx, const GroupVersionResource& resource,
                                const std::string& ns, const ListOptions& options) = 0;

  // Creates the object. The JSON has its apiVersion and kind; its namespace may be left out.
  virtual Result<RawObject> Create(const Context& ctx, const GroupVersionResource& resource,
                                   const std::string& ns, std::string_view json) = 0;

  // Changes what the patch says; everything else stays as it is on the server.
  virtual Result<RawObject> Patch(const Context& ctx, const GroupVersionResource& resource,
                                  const ObjectKey& key, const ObjectPatch& patch) = 0;

  // Replaces the whole object (or its `subresource`). The JSON must come from a read that kept
  // every field, and carries the resourceVersion it was read at; kConflict if that is no longer the
  // latest.
  virtual Result<RawObject> Update(const Context& ctx, const GroupVersionResource& resource,
                                   const ObjectKey& key, std::string_view json,
                                   std::string_view subresource = "") = 0;

  // Posts to a subresource that takes creations: a pod's "binding", a service account's "token".
  // The answer is whatever the server made of it. A client without such things says kNotSupported.
  virtual Result<RawObject> CreateSubresource(const Context& ctx,
                                              const GroupVersionResource& resource,
                                              const ObjectKey& key, std::string_view subresource,
                                              std::string_view json);

  // Asks for the deletion. Success does not say that the object is gone: finalizers and grace
  // periods may hold it.
  virtual Result<void> Delete(const Context& ctx, const GroupVersionResource& resource,
                              const ObjectKey& key, const DeleteOptions& options = {}) = 0;

  // Hands events to `sink` until the server ends the watch (success: go on from the last version
  // seen), an error, or a stop. kExpired: the version is too old, list again. A context's deadline
  // ends the watch with kDeadline.
  virtual Result<void> Watch(const Context& ctx, const GroupVersionResource& resource,
                             const std::string& ns, const WatchOptions& options,
                             const WatchSink& sink) = 0;
};

// Every object, page by page. `each` may move from the object. A continue token that expires on the
// way (a list that took over five minutes) is kExpired: start again.
Result<std::string> ListAll(const Context& ctx, ClusterClient& client,
                            const GroupVersionResource& resource, const std::string& ns,
                            ListOptions options,
                            const std::function<Result<void>(RawObject)>& each);

}  // namespace paddleop::kube
