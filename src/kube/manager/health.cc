#include "kube/manager/health.h"

#include <charconv>
#include <cstdint>

namespace paddleop::kube {

void HealthChecks::AddReadyCheck(std::string name, Check check) {
  MutexLock lock(mutex_);
  checks_[std::move(name)] = std::move(check);
}

net::ServerResponse HealthChecks::Answer(const net::ServerRequest& request) const {
  if (request.path == "/healthz") return net::ServerResponse::Text(200, "ok");
  if (request.path != "/readyz") return net::ServerResponse::Text(404, "not found\n");
  std::map<std::string, Check> checks;
  {
    MutexLock lock(mutex_);
    checks = checks_;
  }
  std::string body;
  bool ready = true;
  for (const auto& [name, check] : checks) {
    const auto passed = check();
    ready = ready && passed;
    body += passed ? fmt::format("[+]{} ok\n", name)
                   : fmt::format("[-]{} failed: {}\n", name, passed.error().message());
  }
  return net::ServerResponse::Text(ready ? 200 : 503, body + (ready ? "ready\n" : "not ready\n"));
}

Result<std::unique_ptr<net::HttpServer>> ServeOn(std::string_view address,
                                                 net::HttpServer::Handler handler) {
  if (address == "0") return std::unique_ptr<net::HttpServer>();
  const std::size_t colon = address.rfind(':');
  net::HttpServerOptions options;
  options.io_threads = 1;
  options.handler_threads = 1;
  options.max_connections = 256;
  const std::string_view port =
      colon == std::string_view::npos ? std::string_view() : address.substr(colon + 1);
  const auto read = std::from_chars(port.data(), port.data() + port.size(), options.port);
  if (port.empty() || read.ec != std::errc{} || read.ptr != port.data() + port.size())
    return Fail(Code::kInvalid, "address \"{}\": expected host:port, :port or 0", address);
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  options.address = host.empty() ? "0.0.0.0" : std::string(host);
  return net::HttpServer::Start(std::move(options), std::move(handler));
}

net::HttpServer::Handler MetricsHandler(const MetricsRegistry& metrics) {
  return [&metrics](const Context&, const net::ServerRequest& request) {
    if (request.path != "/metrics") return net::ServerResponse::Text(404, "not found\n");
    net::ServerResponse response;
    response.headers.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    response.body = metrics.Serialize();
    return response;
  };
}

}  // namespace paddleop::kube
