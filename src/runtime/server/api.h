#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/metrics.h"
#include "net/http_server.h"
#include "runtime/server/engine.h"
#include "runtime/server/job_queue.h"
#include "runtime/server/peer_directory.h"
#include "runtime/server/token_store.h"

namespace paddleop::runtime {

// What there is once the volume is open.
struct Serving {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<PeerDirectory> peers;
  std::shared_ptr<JobQueue> jobs;
};

struct ApiParts {
  std::uint32_t index = 0;
  TokenStore* tokens = nullptr;
  const Logger* log = nullptr;
  MetricsRegistry* metrics = nullptr;
  // Null and the reason while the volume is not open.
  std::function<std::pair<std::shared_ptr<Serving>, std::string>()> serving;
  std::function<Result<void>(const Context&)> purge;
};

// The interface of runtime/protocol/paths.h over the parts of a runtime. Thread-safe.
class Api {
 public:
  explicit Api(ApiParts parts);

  // For the TLS port.
  net::ServerResponse Handle(const Context& ctx, const net::ServerRequest& request);
  // For the socket that mounts of this node ask: blocks only, no token.
  net::ServerResponse HandleLocal(const Context& ctx, const net::ServerRequest& request);

 private:
  net::ServerResponse Refuse(int status, const char* reason, std::string message);
  net::ServerResponse Health(const net::ServerRequest& request);
  net::ServerResponse Info(const Context& ctx);
  net::ServerResponse Upload(Serving& serving, const net::ServerRequest& request);
  net::ServerResponse Jobs(Serving& serving, const net::ServerRequest& request);
  net::ServerResponse Peers(Serving& serving, const net::ServerRequest& request);
  // GET /<kind>Options/<name> and /<kind>Result/<name>.
  std::optional<net::ServerResponse> Stored(Serving& serving, const net::ServerRequest& request);

  const ApiParts parts_;
  const std::string boot_id_;
};

}  // namespace paddleop::runtime
