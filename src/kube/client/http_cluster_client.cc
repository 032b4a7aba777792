#include "kube/client/http_cluster_client.h"

#include <algorithm>
#include <charconv>
#include <future>

#include "kube/metrics.h"
#include "kube/wire/request.h"
#include "kube/wire/status_reply.h"

namespace paddleop::kube {
namespace {

// Waits for an answer as Do does, but on the client's own loop, where the requests of all threads
// share one HTTP/2 connection. A TLS connection for each thread costs more memory than most of what
// a controller knows.
Result<net::HttpResponse> Share(net::HttpClient& client, const Context& ctx,
                                net::HttpRequest request) {
  std::promise<Result<net::HttpResponse>> answer;
  client.Start(ctx, std::move(request),
               [&](Result<net::HttpResponse> response) { answer.set_value(std::move(response)); });
  return answer.get_future().get();
}

bool Succeeded(const net::HttpResponse& response) {
  return response.status >= 200 && response.status < 300;
}

// How long the server asks us to wait before the same request, if it does. A date instead of
// seconds (nobody sends one) counts as one second.
std::optional<std::chrono::seconds> RetryAfter(const net::HttpResponse& response) {
  if (response.status != 429 && response.status < 500) return std::nullopt;
  const auto header = response.headers.Get("Retry-After");
  if (!header) return std::nullopt;
  long seconds = 1;
  std::from_chars(header->data(), header->data() + header->size(), seconds);
  return std::chrono::seconds(std::clamp(seconds, 1L, 60L));
}

net::HttpRequest ToHttp(const std::string& server, const WireRequest& request,
                        const Credential& credential) {
  net::HttpRequest out;
  out.method = request.method;
  out.url = server + request.target;
  out.headers.Add("Accept", "application/json");
  if (!request.content_type.empty()) out.headers.Add("Content-Type", request.content_type);
  if (!credential.token.empty())
    out.headers.Add("Authorization", "Bearer " + credential.token.Reveal());
  out.body = request.body;
  return out;
}

class GaugeHold {
 public:
  explicit GaugeHold(MetricsRegistry::Gauge& gauge) : gauge_(gauge) { gauge_.Add(1); }
  ~GaugeHold() { gauge_.Add(-1); }
  GaugeHold(const GaugeHold&) = delete;
  GaugeHold& operator=(const GaugeHold&) = delete;

 private:
  MetricsRegistry::Gauge& gauge_;
};

}  // namespace

HttpClusterClient::HttpClusterClient(ClusterConfig config, HttpClusterClientOptions options,
                                     MetricsRegistry& metrics, Clock& clock)
    : config_(std::move(config)),
      options_(std::move(options)),
      metrics_(metrics),
      clock_(clock),
      in_flight_(metrics.AddGauge(metric::kRequestsInFlight, metric::kRequestsInFlightHelp)) {}

Result<std::unique_ptr<HttpClusterClient>> HttpClusterClient::Create(
    ClusterConfig config, HttpClusterClientOptions options, MetricsRegistry& metrics,
    Clock& clock) {
  std::unique_ptr<HttpClusterClient> client(
      new HttpClusterClient(std::move(config), std::move(options), metrics, clock));
  // Bad certificates are reported now, not at the first request.
  RETURN_IF_ERROR(client->ConnectionsFor({}));
  return client;
}

Result<std::shared_ptr<HttpClusterClient::Connections>> HttpClusterClient::ConnectionsFor(
    const Credential& credential) {
  MutexLock lock(mutex_);
  if (connections_ && connections_->cert_pem == credential.cert_pem) return connections_;
  net::HttpClientOptions options;
  options.tls = config_.tls;
  if (!credential.cert_pem.empty()) {
    options.tls.cert_pem = credential.cert_pem;
    options.tls.key_pem = credential.key_pem;
  }
  options.user_agent = options_.user_agent;
  options.default_timeout = options_.request_timeout;
  options.max_connections_per_host = options_.max_in_flight;
  options.http2 = true;
  auto fresh = std::make_shared<Connections>();
  fresh->cert_pem = credential.cert_pem;
  ASSIGN_OR_RETURN(fresh->requests, net::HttpClient::Create(options));
  options.http2 = false;  // a watch has its connection for itself
  options.stall_timeout = options_.watch_stall_timeout;
  options.max_connections_per_host = options_.max_watches;
  ASSIGN_OR_RETURN(fresh->watches, net::HttpClient::Create(options));
  connections_ = fresh;
  return fresh;
}

void HttpClusterClient::Count(const WireRequest& request, const GroupVersionResource& resource,
                              const std::string& code) {
  metrics_
      .AddCounter(metric::kRequests, metric::kRequestsHelp,
                  {{"verb", request.verb}, {"resource", ResourceName(resource)}, {"code", code}})
      .Increment();
}

Result<net::HttpResponse> HttpClusterClient::Send(const Context& ctx,
                                                  const GroupVersionResource& resource,
                                                  const WireRequest& request,
                                                  const Exchange& exchange) {
  bool renewed = false;
  for (int attempt = 0;; ++attempt) {
    Credential credential;
    if (config_.credentials) {
      auto got = config_.credentials->Get(ctx);
      if (!got) return std::unexpected(std::move(got).error().Wrap(request.what));
      credential = *std::move(got);
    }
    ASSIGN_OR_RETURN(auto connections, ConnectionsFor(credential));
    auto response = exchange(*connections, ToHttp(config_.server, request, credential));
    Count(request, resource, response ? std::to_string(response->status) : "error");
    if (!response) return std::unexpected(std::move(response).error().Wrap(request.what));

    if (response->status == 401 && config_.credentials && !renewed) {
      renewed = true;
      config_.credentials->Invalidate();
      continue;
    }
    const auto wait = RetryAfter(*response);
    if (!wait || attempt >= options_.max_retries || !clock_.SleepFor(ctx, *wait)) return response;
  }
}

Result<net::HttpResponse> HttpClusterClient::Call(const Context& ctx,
                                                  const GroupVersionResource& resource,
                                                  const WireRequest& request) {
  const Context limited = ctx.has_deadline() ? ctx : ctx.WithTimeout(options_.request_timeout);
  const GaugeHold hold(in_flight_);
  const auto started = clock_.Now();
  auto response =
      Send(limited, resource, request, [&](Connections& connections, net::HttpRequest http) {
        return Share(*connections.requests, limited, std::move(http));
      });
  metrics_
      .AddHistogram(metric::kRequestSeconds, metric::kRequestSecondsHelp, {{"verb", request.verb}})
      .Observe(std::chrono::duration<double>(clock_.Now() - started).count());
  if (response && !Succeeded(*response))
    return std::unexpected(
        StatusOfReply(response->status, response->body, request.what, request.tests));
  return response;
}

Result<RawObject> HttpClusterClient::CallForObject(const Context& ctx,
                                                   const GroupVersionResource& resource,
                                                   const WireRequest& request) {
  ASSIGN_OR_RETURN(const net::HttpResponse response, Call(ctx, resource, request));
  auto object = ParseObject(response.body);
  if (!object) return std::unexpected(std::move(object).error().Wrap(request.what));
  return object;
}

Result<RawObject> HttpClusterClient::Get(const Context& ctx, const GroupVersionResource& resource,
                                         const ObjectKey& key) {
  // An empty name would address the collection, and a list is not what was asked for.
  if (key.name.empty()) return Fail(Code::kInvalid, "get {}: empty name", ResourceName(resource));
  return CallForObject(ctx, resource, GetRequest(resource, key));
}

Result<ListPage> HttpClusterClient::List(const Context& ctx, const GroupVersionResource& resource,
                                         const std::string& ns, const ListOptions& options) {
  const WireRequest request = ListRequest(resource, ns, options);
  ASSIGN_OR_RETURN(net::HttpResponse response, Call(ctx, resource, request));
  auto page = ParseList(std::move(response.body));
  if (!page) return std::unexpected(std::move(page).error().Wrap(request.what));
  return page;
}

Result<RawObject> HttpClusterClient::Create(const Context& ctx,
                                            const GroupVersionResource& resource,
                                            const std::string& ns, std::string_view json) {
  return CallForObject(ctx, resource, CreateRequest(resource, ns, json));
}

Result<RawObject> HttpClusterClient::Patch(const Context& ctx, const GroupVersionResource& resource,
                                           const ObjectKey& key, const ObjectPatch& patch) {
  if (key.name.empty()) return Fail(Code::kInvalid, "patch {}: empty name", ResourceName(resource));
  ASSIGN_OR_RETURN(const WireRequest request, PatchRequest(resource, key, patch));
  return CallForObject(ctx, resource, request);
}

Result<RawObject> HttpClusterClient::Update(const Context& ctx,
                                            const GroupVersionResource& resource,
                                            const ObjectKey& key, std::string_view json,
                                            std::string_view subresource) {
  if (key.name.empty())
    return Fail(Code::kInvalid, "update {}: empty name", ResourceName(resource));
  return CallForObject(ctx, resource, UpdateRequest(resource, key, json, subresource));
}

Result<RawObject> HttpClusterClient::CreateSubresource(const Context& ctx,
                                                       const GroupVersionResource& resource,
                                                       const ObjectKey& key,
                                                       std::string_view subresource,
                                                       std::string_view json) {
  if (key.name.empty())
    return Fail(Code::kInvalid, "create {}: empty name", ResourceName(resource));
  return CallForObject(ctx, resource, CreateSubresourceRequest(resource, key, subresource, json));
}

Result<void> HttpClusterClient::Delete(const Context& ctx, const GroupVersionResource& resource,
                                       const ObjectKey& key, const DeleteOptions& options) {
  // DELETE on the collection would delete everything in it.
  if (key.name.empty())
    return Fail(Code::kInvalid, "delete {}: empty name", ResourceName(resource));
  RETURN_IF_ERROR(Call(ctx, resource, DeleteRequest(resource, key, options)));
  return {};
}

Result<void> HttpClusterClient::Watch(const Context& ctx, const GroupVersionResource& resource,
                                      const std::string& ns, const WatchOptions& options,
                                      const WatchSink& sink) {
  const WireRequest request = WatchRequest(resource, ns, options);
  // The server ends the watch; should it forget to, we do.
  const Context limited = ctx.WithTimeout(options.timeout + std::chrono::seconds(30));
  LineSplitter lines;
  const auto on_line = [&](std::string_view line) -> Result<void> {
    ASSIGN_OR_RETURN(WatchEvent event, ParseWatchEvent(line));
    return sink(std::move(event));
  };
  auto response =
      Send(limited, resource, request, [&](Connections& connections, net::HttpRequest http) {
        return connections.watches->Stream(limited, std::move(http), [&](std::string_view piece) {
          return lines.Feed(piece, on_line);
        });
      });
  if (!response) {
    if (response.error().code() == Code::kDeadline && !ctx.Expired()) return {};
    return std::unexpected(std::move(response).error());
  }
  if (!Succeeded(*response))
    return std::unexpected(StatusOfReply(response->status, response->body, request.what));
  return {};
}

}  // namespace paddleop::kube
