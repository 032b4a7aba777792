#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/context.h"
#include "base/metrics.h"
#include "base/secret.h"
#include "net/http_server.h"
#include "standalone/apiserver/list_query.h"
#include "standalone/apiserver/objects.h"
#include "standalone/apiserver/resource_path.h"
#include "standalone/apiserver/watch_hub.h"

namespace paddleop::standalone::apiserver {

class NodeProxy;

// Requests in, answers out: paths and verbs, and nothing that is not HTTP.
//
// Thread-safe.
class Handlers {
 public:
  struct Parts {
    Objects* objects = nullptr;
    WatchHub* watches = nullptr;
    NodeProxy* nodes = nullptr;
    MetricsRegistry* metrics = nullptr;
    Clock* clock = nullptr;
  };

  Handlers(Parts parts, const Secret& token);

  net::ServerResponse Handle(const Context& ctx, const net::ServerRequest& request);

 private:
  using Response = Answer<net::ServerResponse>;

  Response Route(const Context& ctx, const net::ServerRequest& request);
  Response Document(const net::ServerRequest& request, const std::string& path);
  Response Resource(const Context& ctx, const net::ServerRequest& request,
                    const ResourcePath& path);
  Response Subresource(const Context& ctx, const net::ServerRequest& request,
                       const ResourcePath& path);
  Response Get(const net::ServerRequest& request, const ResourcePath& path);
  Response List(const net::ServerRequest& request, const ResourcePath& path);
  Response Watch(const net::ServerRequest& request, const ResourcePath& path, ListQuery query);
  Response Create(const net::ServerRequest& request, const ResourcePath& path);
  Response Update(const net::ServerRequest& request, const ResourcePath& path);
  Response Patch(const net::ServerRequest& request, const ResourcePath& path);
  Response Delete(const net::ServerRequest& request, const ResourcePath& path);
  Response DeleteAll(const net::ServerRequest& request, const ResourcePath& path);
  Response Bind(const net::ServerRequest& request, const ResourcePath& path);
  Response Evict(const net::ServerRequest& request, const ResourcePath& path);
  Response Scale(const net::ServerRequest& request, const ResourcePath& path);
  // The object in the form that the client accepts.
  net::ServerResponse Show(const net::ServerRequest& request, const StoredObject& object,
                           int status = 200) const;

  const Parts parts_;
  const std::string authorization_;
  Pages pages_;
};

}  // namespace paddleop::standalone::apiserver
