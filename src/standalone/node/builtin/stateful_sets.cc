#include "standalone/node/builtin/stateful_sets.h"

#include "kube/client/apply.h"

namespace paddleop::standalone::node {
namespace {

using kube::Requeue;

const api::OwnerReference* SetOf(const PodSpec& pod) {
  const api::OwnerReference* owner = pod.metadata.Controller();
  return owner != nullptr && owner->kind == "StatefulSet" ? owner : nullptr;
}

}  // namespace

StatefulSets::StatefulSets(kube::ClusterClient& client, kube::Informer<PodSpec>& pods,
                           const Logger& log, MetricsRegistry& metrics, Clock& clock)
    : client_(client),
      pods_(pods),
      sets_({.resource = kube::kStatefulSets}, StatefulSetSpec::Parse, client, log, metrics, clock),
      events_({.component = "statefulset-controller", .instance = "node"}, client, log, metrics,
              clock),
      controller_({.name = "node-statefulsets", .workers = 2}, *this, log, metrics, clock) {
  sets_.AddHandler(
      [this](const kube::Change<StatefulSetSpec>& change) { controller_.Add(change.key); });
  pods_.AddHandler([this](const kube::Change<PodSpec>& change) {
    for (const auto& pod : {change.before, change.after}) {
      if (pod && SetOf(*pod) != nullptr) controller_.Add({pod->metadata.ns, SetOf(*pod)->name});
    }
  });
}

void StatefulSets::AddTo(kube::Manager& manager) {
  manager.Add(sets_);
  manager.Add(events_);
  manager.Add(controller_);
}

Result<Requeue> StatefulSets::Reconcile(const Context& ctx, const kube::ObjectKey& key) {
  const auto set = sets_.Get(key);
  if (!set) return Requeue{};  // its pods go with their owner
  std::vector<std::shared_ptr<const PodSpec>> owned;
  for (const auto& pod : pods_.List(key.ns)) {
    const auto* owner = SetOf(*pod);
    if (owner != nullptr && owner->uid == set->metadata.uid) owned.push_back(pod);
  }
  ASSIGN_OR_RETURN(const StatefulSetPlan plan, DecideStatefulSet(*set, owned));
  RETURN_IF_ERROR(Carry(ctx, *set, plan));
  ASSIGN_OR_RETURN(const auto patch, kube::MergeDifference("{\"status\":" + set->status.text + "}",
                                                           "{\"status\":" + plan.status + "}"));
  if (patch) {
    auto done = client_.Patch(ctx, kube::kStatefulSets, key,
                              kube::MergePatch(*patch, "status", {.uid = set->metadata.uid}));
    if (!done && !IsNotFound(done.error())) return std::unexpected(std::move(done).error());
    if (done) sets_.Learn(*done);
  }
  return Requeue{};
}

Result<void> StatefulSets::Carry(const Context& ctx, const StatefulSetSpec& set,
                                 const StatefulSetPlan& plan) {
  const auto about = kube::ReferenceTo(kube::kStatefulSets, set.metadata.Key(), set.metadata.uid);
  for (const std::string& claim : plan.create_claims) {
    auto made = client_.Create(ctx, kube::kPersistentVolumeClaims, set.metadata.ns, claim);
    if (!made && !IsAlreadyExists(made.error())) return std::unexpected(std::move(made).error());
  }
  for (const std::string& pod : plan.create_pods) {
    auto made = client_.Create(ctx, kube::kPods, set.metadata.ns, pod);
    if (!made && IsAlreadyExists(made.error())) continue;  // the watch will tell
    if (!made) {
      events_.Record(about, kube::EventType::kWarning, "FailedCreate", made.error().message());
      return std::unexpected(std::move(made).error());
    }
    pods_.Learn(*made);
    events_.Record(
        about, kube::EventType::kNormal, "SuccessfulCreate",
        fmt::format("create Pod {} in StatefulSet {} successful", made->name, set.metadata.name));
  }
  for (const std::string& name : plan.delete_pods) {
    const auto deleted = client_.Delete(ctx, kube::kPods, {set.metadata.ns, name});
    if (!deleted && !IsNotFound(deleted.error())) return std::unexpected(deleted.error());
    events_.Record(
        about, kube::EventType::kNormal, "SuccessfulDelete",
        fmt::format("delete Pod {} in StatefulSet {} successful", name, set.metadata.name));
  }
  return {};
}

}  // namespace paddleop::standalone::node
