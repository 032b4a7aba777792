#pragma once

#include <string>

#include "kube/cache/informer.h"
#include "kube/manager/manager.h"
#include "standalone/node/kubelet/pod_spec.h"
#include "standalone/node/scheduler/fit.h"

namespace paddleop::standalone::node {

// Binds pods that have no node yet to one that fits, one after the other. Where a cluster has a
// scheduler of its own, this one does not run.
class Scheduler final : public kube::Reconciler {
 public:
  Scheduler(kube::ClusterClient& client, kube::Informer<PodSpec>& pods,
            kube::Informer<NodeView>& nodes, const Logger& log, MetricsRegistry& metrics,
            Clock& clock = Clock::System());

  // Its controller and events; not the informers.
  void AddTo(kube::Manager& manager);
  Result<kube::Requeue> Reconcile(const Context& ctx, const kube::ObjectKey& key) override;

 private:
  void Watch();
  void RetryAll();
  Result<void> Bind(const Context& ctx, const PodSpec& pod, const std::string& node);
  Result<void> Unschedulable(const Context& ctx, const PodSpec& pod, const std::string& message);

  kube::ClusterClient& client_;
  kube::Informer<PodSpec>& pods_;
  kube::Informer<NodeView>& nodes_;
  Clock& clock_;
  kube::EventRecorder events_;
  kube::Controller controller_;
};

}  // namespace paddleop::standalone::node
