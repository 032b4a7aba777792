#pragma once

#include "kube/cache/informer.h"
#include "kube/manager/manager.h"
#include "standalone/node/builtin/stateful_set.h"

namespace paddleop::standalone::node {

// The StatefulSet controller: pods with stable names, in order or all at once.
class StatefulSets final : public kube::Reconciler {
 public:
  StatefulSets(kube::ClusterClient& client, kube::Informer<PodSpec>& pods, const Logger& log,
               MetricsRegistry& metrics, Clock& clock = Clock::System());

  void AddTo(kube::Manager& manager);
  Result<kube::Requeue> Reconcile(const Context& ctx, const kube::ObjectKey& key) override;

 private:
  Result<void> Carry(const Context& ctx, const StatefulSetSpec& set, const StatefulSetPlan& plan);

  kube::ClusterClient& client_;
  kube::Informer<PodSpec>& pods_;
  kube::Informer<StatefulSetSpec> sets_;
  kube::EventRecorder events_;
  kube::Controller controller_;
};

}  // namespace paddleop::standalone::node
