#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/posix.h"
#include "kube/cache/informer.h"
#include "kube/client/cluster_client.h"
#include "kube/manager/manager.h"
#include "mounter/mounter.h"
#include "standalone/node/builtin/node_taints.h"
#include "standalone/node/builtin/stateful_sets.h"
#include "standalone/node/builtin/volume_binder.h"
#include "standalone/node/endpoint/endpoint.h"
#include "standalone/node/kubelet/claims.h"
#include "standalone/node/kubelet/kubelet.h"
#include "standalone/node/scheduler/scheduler.h"

namespace paddleop::standalone::node {

struct AgentOptions {
  KubeletOptions kubelet;
  bool scheduler = false;            // bind pods to nodes ourselves
  bool builtin_controllers = false;  // StatefulSets, volume claims, node taints
  std::string mount_program = "samplefs";
  // Logs and exec are served to who shows this token, or a certificate that this CA has signed; to
  // nobody if neither is given.
  Secret endpoint_token;
  std::string endpoint_client_ca;
  std::uint16_t endpoint_port = 0;  // 0: any free one
};

// What kubelet, scheduler and the built-in controllers do, each of them if asked for, over one
// client. It speaks only the Kubernetes API.
class Agent {
 public:
  static Result<std::unique_ptr<Agent>> Create(const Context& ctx, AgentOptions options,
                                               kube::ClusterClient& client, const Logger& log,
                                               MetricsRegistry& metrics,
                                               Clock& clock = Clock::System());

  // Before manager.Run(); Stop() after it.
  void AddTo(kube::Manager& manager);
  // Ends all pods' processes.
  void Stop(const Context& ctx);

  Kubelet& kubelet() { return *kubelet_; }

 private:
  Result<void> Serve(const AgentOptions& options, const Logger& log, MetricsRegistry& metrics,
                     Clock& clock);

  Agent(kube::ClusterClient& client, const Logger& log, MetricsRegistry& metrics, Clock& clock);

  kube::Informer<PodSpec> pods_;
  kube::Informer<NodeView> nodes_;
  bool watches_nodes_ = false;
  std::unique_ptr<mounter::Mounter> mounter_;
  std::unique_ptr<Claims> claims_;
  std::unique_ptr<Kubelet> kubelet_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<NodeTaints> node_taints_;
  std::unique_ptr<StatefulSets> stateful_sets_;
  std::unique_ptr<VolumeBinder> volume_binder_;
  std::unique_ptr<Endpoint> endpoint_;
};

// The environment that commands of containers get before their own: PATH and what goes with it,
// from this process. Nothing else of it reaches a pod.
Environment HostEnvironment();

// One agent for each data directory: kUnavailable if another one holds it.
class DataDirLock {
 public:
  static Result<DataDirLock> Take(const std::string& data_dir);

 private:
  explicit DataDirLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace paddleop::standalone::node
