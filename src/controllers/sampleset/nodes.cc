#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "controllers/sampleset/names.h"
#include "controllers/sampleset/pass.h"

namespace paddleop::controllers::sampleset {
namespace {

// A node that does not answer keeps its pods from ending; after this long nobody waits for it.
constexpr std::chrono::seconds kLostNodePatience(30);

PatchObject LabelPatch(const std::string& node, const std::string& label, const api::Json& value) {
  return {api::Node::kType,
          {"", node},
          api::DumpJson({{"metadata", {{"labels", {{label, value}}}}}}),
          ""};
}

}  // namespace

void KeepNodes(Pass& pass) {
  const std::string& label = pass.plan.status.node_label;
  std::map<std::string, std::string> wanted;  // node to pod
  ChangeStep step;
  for (const auto& runtime : pass.seen.runtimes) {
    const auto& pod = *runtime.pod;
    if (IsServing(runtime) && runtime.index < pass.Partitions())
      wanted[pod.node_name] = pod.metadata.name;
    if (!pod.metadata.Deleting() || !pass.NodeLost(pod.node_name)) continue;
    const auto until = *pod.metadata.deletion_timestamp + kLostNodePatience;
    if (pass.seen.now < until) {
      pass.plan.RecheckAfter(until - pass.seen.now);
      continue;
    }
    step.deletes.push_back({api::Pod::kType, pod.metadata.Key(), pod.metadata.uid, true});
    pass.plan.Tell(true, "NodeLost",
                   fmt::format("node {} does not answer; {} is given up, so that another node can "
                               "take the partition",
                               pod.node_name, pod.metadata.name));
  }
  for (const auto& node : pass.seen.labelled) {
    const auto it = wanted.find(node->metadata.name);
    if (it == wanted.end()) {
      step.patches.push_back(LabelPatch(node->metadata.name, label, nullptr));
    } else if (node->metadata.Label(label) == it->second) {
      wanted.erase(it);
    }
  }
  for (const auto& [node, pod] : wanted) {
    const auto found = pass.seen.nodes.find(node);
    // A node that is gone cannot be labelled; its pod will go too.
    if (found != pass.seen.nodes.end() && !found->second) continue;
    step.patches.push_back(LabelPatch(node, label, pod));
  }
  if (!step.empty()) pass.plan.steps.push_back(std::move(step));
}

}  // namespace paddleop::controllers::sampleset
