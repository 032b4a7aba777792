#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "controllers/common/child.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/pass.h"

namespace paddleop::controllers::sampleset {
namespace {

constexpr std::chrono::seconds kWait(2);

template <class T>
void Drop(const Pass& pass, const std::shared_ptr<const T>& object, ChangeStep& step, bool& left) {
  // What somebody else made is not ours to delete.
  if (!object || object->metadata.Label(kSetUidLabel) != pass.set.metadata.uid) return;
  left = true;
  if (object->metadata.Deleting()) return;
  step.deletes.push_back({T::kType, object->metadata.Key(), object->metadata.uid, false});
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
  serving = serving || !pass.seen.runtimes.empty();
  for (const auto& runtime : pass.seen.runtimes) {
    const auto node = pass.seen.nodes.find(runtime.pod->node_name);
    const bool lost = node != pass.seen.nodes.end() && (!node->second || !node->second->ready);
    if (runtime.pod->metadata.Deleting() && lost) {
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
