// /healthz, /readyz and /metrics.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "net/http_server.h"

namespace paddleop::kube {

// The conditions behind /readyz. Thread-safe.
class HealthChecks {
 public:
  using Check = std::function<Result<void>()>;

  void AddReadyCheck(std::string name, Check check);
  // Answers /healthz (alive: always 200), /readyz (200 when every check passes, 503 otherwise; the
  // body has a line for each) and 404.
  net::ServerResponse Answer(const net::ServerRequest& request) const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, Check> checks_ GUARDED_BY(mutex_);
};

// Reads "host:port", ":port" or "0". nullptr for "0". `handler` serves it.
Result<std::unique_ptr<net::HttpServer>> ServeOn(std::string_view address,
                                                 net::HttpServer::Handler handler);

// Answers /metrics from the registry, and 404.
net::HttpServer::Handler MetricsHandler(const MetricsRegistry& metrics);

}  // namespace paddleop::kube
