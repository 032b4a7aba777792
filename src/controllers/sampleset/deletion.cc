#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "controllers/common/child.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/pass.h"

namespace paddleop::controllers::sampleset {
namespace {

constexpr std::chrono::seconds kWait(2);
// With runtimes that do not answer, and so keep what they have cached.
constexpr std::chrono::seconds kPurgePatience(60);

template <class T>
void Drop(const Pass& pass, const std::shared_ptr<const T>& object, ChangeStep& step, bool& left) {
  // What somebody else made is not ours to delete.
  if (!object || object->metadata.Label(kSetUidLabel) != pass.set.metadata.uid) return;
  left = true;
  if (object->metadata.Deleting()) return;
  step.deletes.push_back({T::kType, object->metadata.Key(), object->metadata.uid, false});
}

// Partitions that have cached something where somebody can still remove it.
std::set<std::int32_t> WorthWaitingFor(const Pass& pass) {
  std::set<std::int32_t> indexes;
  if (pass.Since(condition::kDeletable) >= kPurgePatience) return indexes;
  for (const auto& runtime : pass.seen.runtimes) {
    if (runtime.pod->metadata.Deleting() || pass.NodeLost(runtime.pod->node_name)) continue;
    for (const auto& partition : pass.set.status.partitions) {
      if (partition.index == runtime.index && !partition.cache_id.empty())
        indexes.insert(runtime.index);
    }
  }
  return indexes;
}

std::vector<std::string> JobsAtWork(const Pass& pass) {
  std::vector<std::string> names;
  for (const auto& job : pass.seen.users) {
    if (!job->status.Finished()) names.push_back(job->metadata.name);
  }
  return names;
}

}  // namespace

void Remove(Pass& pass) {
  if (!pass.set.metadata.HasFinalizer(FinalizerOf(pass.set.metadata.name))) return;
  auto& plan = pass.plan;
  if (const auto jobs = JobsAtWork(pass); !jobs.empty()) {
    pass.Say(
        condition::kDeletable, false, "InUse",
        fmt::format("waiting for PaddleJobs that use the set: {}; delete them, or let them end",
                    JoinNames(jobs)),
        true);
    return;
  }
  pass.Say(condition::kDeletable, true, "NotInUse", "the set is being taken down; its data stays");
  pass.Say(condition::kReady, false, "Deleting", "the set is being deleted");
  plan.status.phase = plan.status.phase == api::set_phase::kReady
                          ? std::string(api::set_phase::kPartialReady)
                          : plan.status.phase;

  ChangeStep first;
  for (const auto& node : pass.seen.labelled) {
    first.patches.push_back(
        {api::Node::kType,
         {"", node->metadata.name},
         api::DumpJson({{"metadata", {{"labels", {{plan.status.node_label, nullptr}}}}}}),
         ""});
  }
  bool serving = false;
  const bool was_there = pass.seen.stateful_set && !pass.seen.stateful_set->metadata.Deleting();
  Drop(pass, pass.seen.stateful_set, first, serving);
  // While the pods still run: afterwards nobody could clean the nodes' directories.
  plan.purge = was_there && serving;
  if (plan.purge) plan.purge_first = WorthWaitingFor(pass);
  serving = serving || !pass.seen.runtimes.empty();
  for (const auto& runtime : pass.seen.runtimes) {
    if (runtime.pod->metadata.Deleting() && pass.NodeLost(runtime.pod->node_name)) {
      first.deletes.push_back(
          {api::Pod::kType, runtime.pod->metadata.Key(), runtime.pod->metadata.uid, true});
    }
  }
  if (!first.empty()) plan.steps.push_back(std::move(first));
  if (serving) return plan.RecheckAfter(kWait);

  ChangeStep second;
  bool left = false;
  Drop(pass, pass.seen.service, second, left);
  Drop(pass, pass.seen.claim, second, left);
  Drop(pass, pass.seen.volume, second, left);
  Drop(pass, pass.seen.auth, second, left);
  Drop(pass, pass.seen.volume_copy, second, left);
  if (!second.empty()) plan.steps.push_back(std::move(second));
  if (left) return plan.RecheckAfter(kWait);
  plan.drop_finalizer = true;
}

}  // namespace paddleop::controllers::sampleset
