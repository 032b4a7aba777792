#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "kube/client/cluster_client.h"

namespace paddleop::standalone::node {

struct NodeRegistrationOptions {
  std::vector<std::string> nodes;
  std::string address;  // InternalIP
  std::string version;
  std::string data_dir;  // its file system is the nodes' ephemeral storage
};

// Keeps the Node objects and their Leases in the cluster. All logical nodes are this one machine,
// and each shows all of it.
class NodeRegistration {
 public:
  NodeRegistration(NodeRegistrationOptions options, kube::ClusterClient& client, const Logger& log,
                   Clock& clock);

  // Before Register: the port of logs and exec; 0: not served.
  void SetEndpoint(std::uint16_t port) { endpoint_port_ = port; }
  // Creates or takes over the Nodes, Ready.
  Result<void> Register(const Context& ctx);
  // Renews the Leases until the context stops.
  void Run(const Context& ctx);
  // Says that the nodes are not Ready any more.
  void Retire(const Context& ctx);

 private:
  Result<void> RegisterOne(const Context& ctx, const std::string& name);
  Result<void> ReportStatus(const Context& ctx, const std::string& name, bool ready);
  Result<void> RenewLease(const Context& ctx, const std::string& name);

  const NodeRegistrationOptions options_;
  kube::ClusterClient& client_;
  const Logger& log_;
  Clock& clock_;
  std::uint16_t endpoint_port_ = 0;
};

}  // namespace paddleop::standalone::node
