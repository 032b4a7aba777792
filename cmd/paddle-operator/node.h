// The node agent as `node` runs it, and `standalone` beside its API server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/secret.h"

namespace paddleop::cmd {

struct NodeSettings {
  std::string kubeconfig;
  std::string context;
  std::string data_dir;
  std::vector<std::string> nodes;
  bool scheduler = false;
  bool builtin_controllers = false;
  std::string network = "auto";  // auto, namespaces or loopback
  std::string client_ca_file;    // who may ask for logs and exec
  Secret token;                  // or whoever shows this
  std::uint16_t port = 0;
  std::string metrics_address = "0";
  std::string health_address = "0";
};

// node-0, node-1, ...
std::vector<std::string> LogicalNodes(int count);

// Runs pods until the context stops; then ends their processes and takes networks and mounts away.
Result<void> RunNode(const Context& ctx, const NodeSettings& settings, const Logger& log,
                     MetricsRegistry& metrics);

}  // namespace paddleop::cmd
