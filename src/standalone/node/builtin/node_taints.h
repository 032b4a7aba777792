#pragma once

#include "kube/cache/informer.h"
#include "kube/manager/manager.h"
#include "standalone/node/scheduler/fit.h"

namespace paddleop::standalone::node {

// An API server taints new nodes as not ready; a node-lifecycle controller takes the taint away
// when they are. This is that one.
class NodeTaints final : public kube::Reconciler {
 public:
  NodeTaints(kube::ClusterClient& client, kube::Informer<NodeView>& nodes, const Logger& log,
             MetricsRegistry& metrics, Clock& clock = Clock::System());

  void AddTo(kube::Manager& manager);
  Result<kube::Requeue> Reconcile(const Context& ctx, const kube::ObjectKey& key) override;

 private:
  kube::ClusterClient& client_;
  kube::Informer<NodeView>& nodes_;
  kube::Controller controller_;
};

}  // namespace paddleop::standalone::node
