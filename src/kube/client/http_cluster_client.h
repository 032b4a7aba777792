#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/mutex.h"
#include "kube/client/cluster_client.h"
#include "kube/client/cluster_config.h"
#include "kube/wire/request.h"
#include "net/http_client.h"

namespace paddleop::kube {

struct HttpClusterClientOptions {
  std::string user_agent = "paddle-operator";
  std::chrono::milliseconds request_timeout{30'000};  // for calls whose context has no deadline
  // Requests under way at a time; further ones wait their turn. Nothing else slows a client down:
  // the API server says 429 when it has enough.
  std::size_t max_in_flight = 64;
  std::size_t max_watches = 256;
  int max_retries = 10;  // of one request, when the server asks us to wait and come again
  // A watch without any byte for this long is given up. Bookmarks come about once a minute.
  std::chrono::milliseconds watch_stall_timeout{150'000};
};

// ClusterClient over HTTP. Thread-safe.
class HttpClusterClient final : public ClusterClient {
 public:
  static Result<std::unique_ptr<HttpClusterClient>> Create(ClusterConfig config,
                                                           HttpClusterClientOptions options,
                                                           MetricsRegistry& metrics,
                                                           Clock& clock = Clock::System());

  Result<RawObject> Get(const Context& ctx, const GroupVersionResource& resource,
                        const ObjectKey& key) override;
  Result<ListPage> List(const Context& ctx, const GroupVersionResource& resource,
                        const std::string& ns, const ListOptions& options) override;
  Result<RawObject> Create(const Context& ctx, const GroupVersionResource& resource,
                           const std::string& ns, std::string_view json) override;
  Result<RawObject> Patch(const Context& ctx, const GroupVersionResource& resource,
                          const ObjectKey& key, const ObjectPatch& patch) override;
  Result<RawObject> Update(const Context& ctx, const GroupVersionResource& resource,
                           const ObjectKey& key, std::string_view json,
                           std::string_view subresource) override;
  Result<RawObject> CreateSubresource(const Context& ctx, const GroupVersionResource& resource,
                                      const ObjectKey& key, std::string_view subresource,
                                      std::string_view json) override;
  Result<void> Delete(const Context& ctx, const GroupVersionResource& resource,
                      const ObjectKey& key, const DeleteOptions& options) override;
  Result<void> Watch(const Context& ctx, const GroupVersionResource& resource,
                     const std::string& ns, const WatchOptions& options,
                     const WatchSink& sink) override;

  const ClusterConfig& config() const { return config_; }

 private:
  // The connections that go with one client certificate.
  struct Connections {
    std::string cert_pem;
    std::unique_ptr<net::HttpClient> requests;
    std::unique_ptr<net::HttpClient> watches;
  };
  using Exchange = std::function<Result<net::HttpResponse>(Connections&, net::HttpRequest)>;

  HttpClusterClient(ClusterConfig config, HttpClusterClientOptions options,
                    MetricsRegistry& metrics, Clock& clock);

  Result<std::shared_ptr<Connections>> ConnectionsFor(const Credential& credential);
  // Sends with our credentials; again with fresh ones after a 401, again later when the server
  // asks. The response is any the server gave.
  Result<net::HttpResponse> Send(const Context& ctx, const GroupVersionResource& resource,
                                 const WireRequest& request, const Exchange& exchange);
  // As Send; a status outside 2xx is an error.
  Result<net::HttpResponse> Call(const Context& ctx, const GroupVersionResource& resource,
                                 const WireRequest& request);
  Result<RawObject> CallForObject(const Context& ctx, const GroupVersionResource& resource,
                                  const WireRequest& request);
  void Count(const WireRequest& request, const GroupVersionResource& resource,
             const std::string& code);

  const ClusterConfig config_;
  const HttpClusterClientOptions options_;
  MetricsRegistry& metrics_;
  Clock& clock_;
  MetricsRegistry::Gauge& in_flight_;
  Mutex mutex_;
  std::shared_ptr<Connections> connections_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::kube
