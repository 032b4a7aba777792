#include "standalone/node/builtin/stateful_set.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>

#include "api/core/objects.h"
#include "base/crypto.h"
#include "standalone/node/json_child.h"

namespace paddleop::standalone::node {
namespace {

using api::Json;

constexpr char kRevisionLabel[] = "controller-revision-hash";

Json& Ensure(Json& object, const char* key, Json::value_t type) {
  Json& value = object[key];
  if (value.type() != type) value = Json(type);
  return value;
}

// The number at the end of a pod's name, or -1.
int Ordinal(const std::string& set, const std::string& pod) {
  if (!pod.starts_with(set + "-")) return -1;
  const std::string_view text = std::string_view(pod).substr(set.size() + 1);
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

std::string PodName(const StatefulSetSpec& set, int ordinal) {
  return fmt::format("{}-{}", set.metadata.name, ordinal);
}

// The claims of a pod, and the volumes by which its spec names them.
void AddClaims(const StatefulSetSpec& set, const std::string& pod_name, Json& pod_spec,
               StatefulSetPlan& plan) {
  if (set.claim_templates.empty()) return;
  auto templates = api::ParseJson(set.claim_templates.text);
  if (!templates) return;
  Json& volumes = Ensure(pod_spec, "volumes", Json::value_t::array);
  for (Json claim : *templates) {
    const std::string volume = Child(claim, "metadata").value("name", "");
    const std::string name = fmt::format("{}-{}", volume, pod_name);
    claim["apiVersion"] = "v1";
    claim["kind"] = "PersistentVolumeClaim";
    claim["metadata"]["name"] = name;
    claim["metadata"]["namespace"] = set.metadata.ns;
    claim.erase("status");
    plan.create_claims.push_back(api::DumpJson(claim));
    volumes.erase(
        std::remove_if(volumes.begin(), volumes.end(),
                       [&](const Json& each) { return each.value("name", "") == volume; }),
        volumes.end());
    volumes.push_back({{"name", volume}, {"persistentVolumeClaim", {{"claimName", name}}}});
  }
}

Result<void> AddPod(const StatefulSetSpec& set, int ordinal, StatefulSetPlan& plan) {
  ASSIGN_OR_RETURN(Json pod, api::ParseJson(set.pod_template.text));
  if (!pod.is_object()) return Fail(Code::kInvalid, "spec.template is no object");
  const std::string name = PodName(set, ordinal);
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  Json& metadata = Ensure(pod, "metadata", Json::value_t::object);
  metadata["name"] = name;
  metadata["namespace"] = set.metadata.ns;
  metadata.erase("creationTimestamp");
  metadata["ownerReferences"] = {
      api::ToJson(api::ControllerOf(api::StatefulSet::kType, set.metadata))};
  Json& labels = Ensure(metadata, "labels", Json::value_t::object);
  labels["statefulset.kubernetes.io/pod-name"] = name;
  labels["apps.kubernetes.io/pod-index"] = std::to_string(ordinal);
  labels[kRevisionLabel] = set.revision;
  Json& spec = Ensure(pod, "spec", Json::value_t::object);
  spec["hostname"] = name;
  if (!set.service_name.empty()) spec["subdomain"] = set.service_name;
  AddClaims(set, name, spec, plan);
  plan.create_pods.push_back(api::DumpJson(pod));
  return {};
}

using Pods = std::map<int, const PodSpec*>;

// One at a time from the highest number down, and only while all others do well.
void RollOut(const StatefulSetSpec& set, const Pods& pods, StatefulSetPlan& plan) {
  if (set.on_delete || !plan.delete_pods.empty() || !plan.create_pods.empty()) return;
  for (const auto& [number, found] : std::ranges::reverse_view(pods)) {
    const PodSpec& pod = *found;
    const bool current = pod.metadata.Label(kRevisionLabel) == set.revision;
    if (!current && !pod.metadata.Deleting()) plan.delete_pods.push_back(pod.metadata.name);
    if (!current || !pod.ready || pod.metadata.Deleting()) return;
  }
}

Result<void> Scale(const StatefulSetSpec& set, const Pods& pods, StatefulSetPlan& plan) {
  for (int i = 0; i < set.replicas; ++i) {
    const auto found = pods.find(i);
    if (found == pods.end()) {
      RETURN_IF_ERROR(AddPod(set, i, plan));
      if (!set.parallel) return {};
      continue;
    }
    const PodSpec& pod = *found->second;
    if (pod.Finished() && !pod.metadata.Deleting()) plan.delete_pods.push_back(pod.metadata.name);
    if (!set.parallel && (!pod.ready || pod.metadata.Deleting())) return {};
  }
  for (auto at = pods.rbegin(); at != pods.rend() && at->first >= set.replicas; ++at) {
    if (!at->second->metadata.Deleting()) plan.delete_pods.push_back(at->second->metadata.name);
    if (!set.parallel) return {};  // the next one when this is gone
  }
  return {};
}

std::string StatusOf(const StatefulSetSpec& set, const Pods& pods) {
  auto parsed = api::ParseJson(set.status.text);
  Json status = parsed && parsed->is_object() ? *std::move(parsed) : Json::object();
  std::string current = status.value("currentRevision", "");
  if (current.empty()) current = set.revision;
  int ready = 0;
  int updated = 0;
  int on_current = 0;
  for (const auto& [ordinal, pod] : pods) {
    ready += pod->ready && !pod->metadata.Deleting() ? 1 : 0;
    updated += pod->metadata.Label(kRevisionLabel) == set.revision ? 1 : 0;
    on_current += pod->metadata.Label(kRevisionLabel) == current ? 1 : 0;
  }
  const int count = static_cast<int>(pods.size());
  if (updated == count && count == set.replicas && ready == count) {
    current = set.revision;
    on_current = updated;
  }
  status["observedGeneration"] = set.metadata.generation;
  status["replicas"] = count;
  status["readyReplicas"] = ready;
  status["availableReplicas"] = ready;
  status["updatedReplicas"] = updated;
  status["currentReplicas"] = on_current;
  status["currentRevision"] = current;
  status["updateRevision"] = set.revision;
  status["collisionCount"] = 0;
  return api::DumpJson(status);
}

}  // namespace

Result<StatefulSetSpec> StatefulSetSpec::Parse(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, api::ParseJson(text));
  StatefulSetSpec out;
  ASSIGN_OR_RETURN(out.metadata, api::ObjectMetaFromJson(Child(json, "metadata")));
  const Json& spec = Child(json, "spec");
  const Json& replicas = Child(spec, "replicas");
  if (replicas.is_number_integer()) out.replicas = replicas.get<std::int32_t>();
  if (spec.is_object()) {
    out.parallel = spec.value("podManagementPolicy", "") == "Parallel";
    out.service_name = spec.value("serviceName", "");
    const Json& strategy = Child(spec, "updateStrategy");
    out.on_delete = strategy.is_object() && strategy.value("type", "") == "OnDelete";
  }
  out.pod_template.text = api::DumpJson(Child(spec, "template"));
  const Json& claims = Child(spec, "volumeClaimTemplates");
  if (claims.is_array() && !claims.empty()) out.claim_templates.text = api::DumpJson(claims);
  out.revision = fmt::format("{}-{}", out.metadata.name,
                             HexEncode(Sha256(out.pod_template.text)).substr(0, 10));
  const Json& status = Child(json, "status");
  out.status.text = status.is_object() ? api::DumpJson(status) : "{}";
  return out;
}

Result<StatefulSetPlan> DecideStatefulSet(const StatefulSetSpec& set,
                                          const std::vector<std::shared_ptr<const PodSpec>>& all) {
  Pods pods;
  for (const auto& pod : all) {
    const int ordinal = Ordinal(set.metadata.name, pod->metadata.name);
    if (ordinal >= 0) pods[ordinal] = pod.get();
  }
  StatefulSetPlan plan;
  if (!set.metadata.Deleting()) {
    RETURN_IF_ERROR(Scale(set, pods, plan));
    RollOut(set, pods, plan);
  }
  plan.status = StatusOf(set, pods);
  return plan;
}

}  // namespace paddleop::standalone::node
