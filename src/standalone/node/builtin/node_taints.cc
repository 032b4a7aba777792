#include "standalone/node/builtin/node_taints.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paddleop::standalone::node {
namespace {

constexpr char kNotReady[] = "node.kubernetes.io/not-ready";

bool Tainted(const NodeView& node) {
  return std::any_of(node.taints.begin(), node.taints.end(),
                     [](const Taint& taint) { return taint.key == kNotReady; });
}

}  // namespace

NodeTaints::NodeTaints(kube::ClusterClient& client, kube::Informer<NodeView>& nodes,
                       const Logger& log, MetricsRegistry& metrics, Clock& clock)
    : client_(client),
      nodes_(nodes),
      controller_({.name = "node-taints", .workers = 1}, *this, log, metrics, clock) {
  nodes_.AddHandler([this](const kube::Change<NodeView>& change) {
    if (change.after && change.after->ready && Tainted(*change.after)) controller_.Add(change.key);
  });
}

void NodeTaints::AddTo(kube::Manager& manager) { manager.Add(controller_); }

Result<kube::Requeue> NodeTaints::Reconcile(const Context& ctx, const kube::ObjectKey& key) {
  const auto node = nodes_.Get(key);
  if (!node || !node->ready || !Tainted(*node)) return kube::Requeue{};
  ASSIGN_OR_RETURN(const auto raw, client_.Get(ctx, kube::kNodes, key));
  ASSIGN_OR_RETURN(const api::Json json, api::ParseJson(raw.json));
  api::Json left = api::Json::array();
  for (const api::Json& taint : json["spec"].value("taints", api::Json::array())) {
    if (taint.value("key", "") != kNotReady) left.push_back(taint);
  }
  auto done =
      client_.Patch(ctx, kube::kNodes, key,
                    kube::MergePatch(api::DumpJson({{"spec", {{"taints", std::move(left)}}}}), "",
                                     {.resource_version = raw.resource_version}));
  if (!done) return std::unexpected(std::move(done).error());
  nodes_.Learn(*done);
  return kube::Requeue{};
}

}  // namespace paddleop::standalone::node
