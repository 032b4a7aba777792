#include "standalone/node/scheduler/fit.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/meta/quantity.h"
#include "standalone/node/json_child.h"

namespace paddleop::standalone::node {
namespace {

using api::Json;

std::int64_t Thousandths(const std::string& text) {
  auto quantity = api::Quantity::Parse(text);
  if (!quantity || !quantity->Multiply(1000)) return 0;
  return quantity->ToInteger();
}

std::optional<std::int64_t> Integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool Holds(const Json& expression, const std::optional<std::string>& value) {
  const std::string op = expression.value("operator", "");
  std::vector<std::string> values;
  for (const Json& each : Child(expression, "values"))
    if (each.is_string()) values.push_back(each.get<std::string>());
  const bool in = value && std::find(values.begin(), values.end(), *value) != values.end();
  if (op == "In") return in;
  if (op == "NotIn") return !in;
  if (op == "Exists") return value.has_value();
  if (op == "DoesNotExist") return !value.has_value();
  if ((op == "Gt" || op == "Lt") && value && values.size() == 1) {
    const auto have = Integer(*value);
    const auto want = Integer(values[0]);
    return have && want && (op == "Gt" ? *have > *want : *have < *want);
  }
  return false;
}

// Everything in a term must hold; an empty one matches nothing.
bool Matches(const Json& term, const NodeView& node) {
  const Json& labels = Child(term, "matchExpressions");
  const Json& fields = Child(term, "matchFields");
  if (labels.empty() && fields.empty()) return false;
  for (const Json& each : labels) {
    const auto found = node.labels.find(each.value("key", ""));
    if (!Holds(each, found == node.labels.end() ? std::nullopt : std::optional(found->second)))
      return false;
  }
  for (const Json& each : fields) {
    const bool name = each.value("key", "") == "metadata.name";
    if (!Holds(each, name ? std::optional(node.name) : std::nullopt)) return false;
  }
  return true;
}

Json AffinityOf(const PodSpec& pod) {
  if (pod.node_affinity.empty()) return Json::object();
  auto json = api::ParseJson(pod.node_affinity.text);
  return json ? *std::move(json) : Json::object();
}

bool Tolerates(const Json& tolerations, const Taint& taint) {
  return std::any_of(tolerations.begin(), tolerations.end(), [&](const Json& each) {
    const std::string effect = each.value("effect", "");
    if (!effect.empty() && effect != taint.effect) return false;
    const std::string key = each.value("key", "");
    if (each.value("operator", "Equal") == "Exists") return key.empty() || key == taint.key;
    return key == taint.key && each.value("value", "") == taint.value;
  });
}

const Taint* Untolerated(const PodSpec& pod, const NodeView& node) {
  Json tolerations = Json::array();
  if (!pod.tolerations.empty()) {
    if (auto parsed = api::ParseJson(pod.tolerations.text)) tolerations = *std::move(parsed);
  }
  for (const Taint& taint : node.taints) {
    if (taint.effect != "PreferNoSchedule" && !Tolerates(tolerations, taint)) return &taint;
  }
  return nullptr;
}

std::string Summary(std::size_t nodes, const std::map<std::string, int>& reasons) {
  std::string out = fmt::format("0/{} nodes are available", nodes);
  const char* separator = ": ";
  for (const auto& [reason, count] : reasons) {
    out += fmt::format("{}{} {}", separator, count, reason);
    separator = ", ";
  }
  return out + ".";
}

}  // namespace

Result<NodeView> NodeView::Parse(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, api::ParseJson(text));
  NodeView out;
  ASSIGN_OR_RETURN(const auto metadata, api::ObjectMetaFromJson(Child(json, "metadata")));
  out.name = metadata.name;
  out.labels = metadata.labels;
  const Json& spec = Child(json, "spec");
  out.unschedulable = spec.is_object() && spec.value("unschedulable", false);
  for (const Json& taint : Child(spec, "taints")) {
    out.taints.push_back(
        {taint.value("key", ""), taint.value("value", ""), taint.value("effect", "")});
  }
  for (const Json& condition : Child(Child(json, "status"), "conditions")) {
    if (condition.value("type", "") == "Ready") out.ready = condition.value("status", "") == "True";
  }
  const Json& allocatable = Child(Child(json, "status"), "allocatable");
  if (allocatable.is_object()) {
    for (const auto& [key, value] : allocatable.items())
      out.allocatable[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return out;
}

void AddRequests(const PodSpec& pod, ResourceSum& sum) {
  for (const ContainerSpec& container : pod.containers) {
    api::StringMap wanted = container.limits;
    for (const auto& [name, value] : container.requests) wanted[name] = value;
    for (const auto& [name, value] : wanted) sum[name] += Thousandths(value);
  }
}

std::optional<std::string> WhyNot(const PodSpec& pod, const NodeView& node,
                                  const ResourceSum& used) {
  if (!node.ready) return "node(s) were not ready";
  if (node.unschedulable) return "node(s) were unschedulable";
  if (const Taint* taint = Untolerated(pod, node)) {
    return fmt::format("node(s) had untolerated taint {{{}: {}}}", taint->key, taint->value);
  }
  const char* mismatch = "node(s) didn't match Pod's node affinity/selector";
  for (const auto& [key, value] : pod.node_selector) {
    const auto found = node.labels.find(key);
    if (found == node.labels.end() || found->second != value) return mismatch;
  }
  const Json affinity = AffinityOf(pod);
  const Json& required = Child(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
  if (required.is_object()) {
    const Json& terms = Child(required, "nodeSelectorTerms");
    if (std::none_of(terms.begin(), terms.end(),
                     [&](const Json& term) { return Matches(term, node); }))
      return mismatch;
  }
  ResourceSum sum = used;
  ResourceSum own;
  AddRequests(pod, own);
  for (const auto& [name, amount] : own) {
    const auto has = node.allocatable.find(name);
    const std::int64_t limit = has == node.allocatable.end() ? 0 : Thousandths(has->second);
    if (amount > 0 && sum[name] + amount > limit) return "Insufficient " + name;
  }
  return std::nullopt;
}

std::int64_t Preference(const PodSpec& pod, const NodeView& node) {
  std::int64_t score = 0;
  const Json affinity = AffinityOf(pod);
  for (const Json& each : Child(affinity, "preferredDuringSchedulingIgnoredDuringExecution")) {
    if (Matches(Child(each, "preference"), node)) score += each.value("weight", 0);
  }
  return score;
}

Choice ChooseNode(const PodSpec& pod, const std::vector<Candidate>& nodes) {
  const Candidate* best = nullptr;
  std::int64_t best_score = 0;
  std::map<std::string, int> reasons;
  for (const Candidate& each : nodes) {
    if (auto reason = WhyNot(pod, *each.node, each.used)) {
      ++reasons[*std::move(reason)];
      continue;
    }
    const std::int64_t score = Preference(pod, *each.node);
    if (best == nullptr || score > best_score || (score == best_score && each.pods < best->pods)) {
      best = &each;
      best_score = score;
    }
  }
  if (best != nullptr) return {.node = best->node->name};
  return {.message = Summary(nodes.size(), reasons)};
}

}  // namespace paddleop::standalone::node
