#include "standalone/node/scheduler/scheduler.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paddleop::standalone::node {
namespace {

using api::Json;
using kube::Requeue;

constexpr char kName[] = "default-scheduler";

bool Waits(const PodSpec& pod) {
  return pod.node_name.empty() && !pod.metadata.Deleting() && !pod.Finished() &&
         (pod.scheduler_name.empty() || pod.scheduler_name == kName);
}

}  // namespace

Scheduler::Scheduler(kube::ClusterClient& client, kube::Informer<PodSpec>& pods,
                     kube::Informer<NodeView>& nodes, const Logger& log, MetricsRegistry& metrics,
                     Clock& clock)
    : client_(client),
      pods_(pods),
      nodes_(nodes),
      clock_(clock),
      events_({.component = kName, .instance = kName}, client, log, metrics, clock),
      // One worker: two pods decided at once would both take the last place.
      controller_({.name = "node-scheduler", .workers = 1}, *this, log, metrics, clock) {
  Watch();
}

void Scheduler::AddTo(kube::Manager& manager) {
  manager.Add(events_);
  manager.Add(controller_);
}

void Scheduler::Watch() {
  pods_.AddHandler([this](const kube::Change<PodSpec>& change) {
    if (change.after && Waits(*change.after)) controller_.Add(change.key);
    const bool freed =
        change.before && !change.before->Finished() && (!change.after || change.after->Finished());
    if (freed) RetryAll();
  });
  nodes_.AddHandler([this](const kube::Change<NodeView>&) { RetryAll(); });
}

void Scheduler::RetryAll() {
  for (const auto& pod : pods_.List()) {
    if (Waits(*pod)) controller_.Add(pod->Key());
  }
}

Result<Requeue> Scheduler::Reconcile(const Context& ctx, const kube::ObjectKey& key) {
  const auto pod = pods_.Get(key);
  if (!pod || !Waits(*pod)) return Requeue{};
  const auto nodes = nodes_.List();
  std::vector<Candidate> candidates;
  candidates.reserve(nodes.size());
  for (const auto& node : nodes) candidates.push_back({.node = node.get()});
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.node->name < b.node->name; });
  for (const auto& other : pods_.List()) {
    if (other->node_name.empty() || other->Finished()) continue;
    for (Candidate& candidate : candidates) {
      if (candidate.node->name != other->node_name) continue;
      AddRequests(*other, candidate.used);
      ++candidate.pods;
    }
  }
  const Choice choice = ChooseNode(*pod, candidates);
  if (choice.node.empty()) {
    RETURN_IF_ERROR(Unschedulable(ctx, *pod, choice.message));
    return Requeue{};
  }
  RETURN_IF_ERROR(Bind(ctx, *pod, choice.node));
  return Requeue{};
}

Result<void> Scheduler::Bind(const Context& ctx, const PodSpec& pod, const std::string& node) {
  const Json binding = {
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata",
       {{"name", pod.metadata.name}, {"namespace", pod.metadata.ns}, {"uid", pod.metadata.uid}}},
      {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
  auto bound =
      client_.CreateSubresource(ctx, kube::kPods, pod.Key(), "binding", api::DumpJson(binding));
  if (!bound && (IsNotFound(bound.error()) || IsConflict(bound.error()))) return {};
  if (!bound) return std::unexpected(std::move(bound).error());
  // The next pod must see this one in its place without waiting for the watch.
  if (auto now = client_.Get(ctx, kube::kPods, pod.Key())) pods_.Learn(*now);
  events_.Record(kube::ReferenceTo(kube::kPods, pod.Key(), pod.metadata.uid),
                 kube::EventType::kNormal, "Scheduled",
                 fmt::format("Successfully assigned {} to {}", pod.Key().ToString(), node));
  return {};
}

Result<void> Scheduler::Unschedulable(const Context& ctx, const PodSpec& pod,
                                      const std::string& message) {
  ASSIGN_OR_RETURN(const Json status, api::ParseJson(pod.status.text));
  Json after = status;
  Json& conditions = after["conditions"];
  if (!conditions.is_array()) conditions = Json::array();
  Json* found = nullptr;
  for (Json& each : conditions) {
    if (each.value("type", "") == "PodScheduled") found = &each;
  }
  if (found == nullptr) {
    conditions.push_back({{"type", "PodScheduled"}});
    found = &conditions.back();
  }
  if (found->value("status", "") != "False") {
    (*found)["status"] = "False";
    (*found)["lastTransitionTime"] =
        api::FormatTime(std::chrono::floor<std::chrono::seconds>(clock_.WallNow()));
  }
  (*found)["reason"] = "Unschedulable";
  (*found)["message"] = message;
  after["phase"] = "Pending";
  ASSIGN_OR_RETURN(const auto patch, kube::MergeDifference(api::DumpJson({{"status", status}}),
                                                           api::DumpJson({{"status", after}})));
  if (!patch) return {};
  auto done = client_.Patch(ctx, kube::kPods, pod.Key(),
                            kube::MergePatch(*patch, "status", {.uid = pod.metadata.uid}));
  if (!done && !IsNotFound(done.error()) && !IsConflict(done.error()))
    return std::unexpected(std::move(done).error());
  if (done) pods_.Learn(*done);
  events_.Record(kube::ReferenceTo(kube::kPods, pod.Key(), pod.metadata.uid),
                 kube::EventType::kWarning, "FailedScheduling", message);
  return {};
}

}  // namespace paddleop::standalone::node
