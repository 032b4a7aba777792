// Which node fits a pod. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "standalone/node/kubelet/pod_spec.h"

namespace paddleop::standalone::node {

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute
};

// What a scheduler reads of a node.
struct NodeView {
  std::string name;
  api::StringMap labels;
  bool ready = false;
  bool unschedulable = false;
  std::vector<Taint> taints;
  api::StringMap allocatable;

  static Result<NodeView> Parse(std::string_view json);
};

// What the pods of a node ask for together, by resource, in thousandths.
using ResourceSum = std::map<std::string, std::int64_t, std::less<>>;
void AddRequests(const PodSpec& pod, ResourceSum& sum);

// Why the pod cannot go there, in the words of Kubernetes ("node(s) didn't match ..."); nullopt: it
// can. `used` is what is asked for there already.
std::optional<std::string> WhyNot(const PodSpec& pod, const NodeView& node,
                                  const ResourceSum& used);
// How much the pod's preferences like the node.
std::int64_t Preference(const PodSpec& pod, const NodeView& node);

struct Candidate {
  const NodeView* node = nullptr;
  ResourceSum used;
  int pods = 0;
};
struct Choice {
  std::string node;     // empty: none fits
  std::string message;  // why: "0/2 nodes are available: ..."
};
// The fitting node that the pod prefers, among those the one with the fewest pods.
Choice ChooseNode(const PodSpec& pod, const std::vector<Candidate>& nodes);

}  // namespace paddleop::standalone::node
