#include "controllers/paddlejob/data_gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "controllers/paddlejob/decide.h"

namespace paddleop::controllers::paddlejob {
namespace {

using std::chrono::seconds;

void SetDataReady(const Observed& seen, Plan& plan, std::string_view status, std::string reason,
                  std::string message) {
  api::SetCondition(plan.status.conditions,
                    {.type = condition::kDataReady,
                     .status = std::string(status),
                     .observed_generation = seen.job->metadata.generation,
                     .reason = std::move(reason),
                     .message = std::move(message)},
                    seen.now);
}

bool FullyCached(const api::SampleSet& set) {
  const auto& cache = set.status.cache_status;
  if (!cache) return false;
  return cache->cached_percent == "100%" ||
         (!cache->total_size.empty() && cache->total_size == cache->cached_size);
}

// Has the set been partly ready for longer than a job should wait for the rest?
bool WaitedEnough(const Observed& seen, Plan& plan) {
  const auto timeout = seconds(seen.job->spec.sample_set_ref->affinity_timeout_seconds);
  const api::Condition* waiting =
      api::FindCondition(seen.job->status.conditions, condition::kDataReady);
  const auto since = waiting != nullptr && waiting->last_transition_time
                         ? *waiting->last_transition_time
                         : seen.now;
  if (seen.now - since >= timeout) return true;
  plan.RecheckAfter(since + timeout - seen.now);
  return false;
}

const api::Node* PartitionNode(const Observed& seen, const std::string& label,
                               const std::string& value) {
  for (const auto& node : seen.cache_nodes) {
    if (node->metadata.Label(label) == value) return node.get();
  }
  return nullptr;
}

std::string LabelOf(const Observed& seen) {
  if (seen.sample_set && !seen.sample_set->status.node_label.empty())
    return seen.sample_set->status.node_label;
  return api::SampleSetLabel(seen.job->spec.sample_set_ref->name);
}

}  // namespace

bool DataIsReady(const Observed& seen, Plan& plan) {
  const auto& ref = seen.job->spec.sample_set_ref;
  if (!ref || ref->WaitForKind() == api::SampleSetRef::WaitFor::kNone) return true;
  // Checked once: a set that is scaled or warmed later must not stop a job.
  if (api::IsConditionTrue(plan.status.conditions, condition::kDataReady)) return true;
  if (!seen.sample_set) {
    const std::string message = fmt::format(
        "SampleSet {} does not exist in namespace {}; create it, or correct "
        "spec.sampleSetRef.name",
        ref->name, seen.job->metadata.ns);
    const api::Condition* before =
        api::FindCondition(plan.status.conditions, condition::kDataReady);
    if (before == nullptr || before->reason != "SampleSetNotFound")
      plan.Tell(true, "SampleSetNotFound", message);
    SetDataReady(seen, plan, api::kStatusFalse, "SampleSetNotFound", message);
    return false;
  }
  const auto& set = *seen.sample_set;
  const std::string& phase = set.status.phase;
  const bool ready = phase == api::set_phase::kReady;
  if (ref->WaitForKind() == api::SampleSetRef::WaitFor::kCached) {
    if (ready && FullyCached(set)) {
      SetDataReady(seen, plan, api::kStatusTrue, "Cached",
                   fmt::format("all data of SampleSet {} is cached", ref->name));
      return true;
    }
    SetDataReady(
        seen, plan, api::kStatusFalse, "NotCached",
        fmt::format("waiting until SampleSet {} is fully cached (phase {}, cached {})", ref->name,
                    phase.empty() ? "unset" : phase,
                    set.status.cache_status ? set.status.cache_status->cached_size : "nothing"));
    return false;
  }
  if (ready) {
    SetDataReady(seen, plan, api::kStatusTrue, "Ready",
                 fmt::format("SampleSet {} is ready", ref->name));
    return true;
  }
  if (phase == api::set_phase::kPartialReady && WaitedEnough(seen, plan)) {
    SetDataReady(
        seen, plan, api::kStatusTrue, "PartialReady",
        fmt::format("SampleSet {} has its data, but not all partitions; starting without them",
                    ref->name));
    return true;
  }
  SetDataReady(seen, plan, api::kStatusFalse, "NotReady",
               fmt::format("waiting until SampleSet {} is ready (phase {})", ref->name,
                           phase.empty() ? "unset" : phase));
  return false;
}

DataPlacement PlaceWorker(const Observed& seen, std::int32_t index) {
  DataPlacement placement;
  const auto& ref = seen.job->spec.sample_set_ref;
  if (!ref || ref->AffinityKind() == api::SampleSetRef::Affinity::kNone) return placement;
  placement.label = LabelOf(seen);
  placement.value = api::RuntimePodName(ref->name, index);
  // More workers than partitions: the surplus runs anywhere and reads from its peers.
  const api::Node* node = PartitionNode(seen, placement.label, placement.value);
  if (node == nullptr) return placement;
  const auto& relaxed = seen.job->status.relaxed_workers;
  const bool required = ref->AffinityKind() == api::SampleSetRef::Affinity::kRequired &&
                        node->ready && !node->unschedulable &&
                        std::find(relaxed.begin(), relaxed.end(), index) == relaxed.end();
  placement.affinity = required ? Affinity::kRequired : Affinity::kPreferred;
  return placement;
}

std::vector<PodPointer> RelaxAffinity(const Observed& seen, const Census& census, Plan& plan) {
  std::vector<PodPointer> pods;
  const auto& ref = seen.job->spec.sample_set_ref;
  if (!ref) return pods;
  const auto timeout = seconds(ref->affinity_timeout_seconds);
  const std::string label = LabelOf(seen);
  for (const auto& [place, pod] : census.members) {
    if (place.role != Role::kWorker || !pod->node_name.empty() || pod->Finished()) continue;
    if (pod->metadata.Annotation(kDataAffinityAnnotation) != "required") continue;
    const api::Node* node = PartitionNode(seen, label, api::RuntimePodName(ref->name, place.index));
    const bool node_lost = node == nullptr || !node->ready || node->unschedulable;
    if (!node_lost) {
      if (!pod->unschedulable_since) continue;
      const auto until = *pod->unschedulable_since + timeout;
      if (seen.now < until) {
        plan.RecheckAfter(until - seen.now);
        continue;
      }
    }
    auto& relaxed = plan.status.relaxed_workers;
    if (std::find(relaxed.begin(), relaxed.end(), place.index) == relaxed.end())
      relaxed.push_back(place.index);
    pods.push_back(pod);
    plan.Tell(true, "AffinityRelaxed",
              fmt::format("{} cannot run on the node that caches its partition ({}); it is made "
                          "again with preferred "
                          "affinity and may read over the network",
                          pod->metadata.name,
                          node_lost ? "the node is not ready"
                                    : "unschedulable: " + pod->unschedulable_message));
  }
  std::sort(plan.status.relaxed_workers.begin(), plan.status.relaxed_workers.end());
  return pods;
}

}  // namespace paddleop::controllers::paddlejob
