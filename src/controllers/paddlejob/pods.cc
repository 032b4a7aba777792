#include "controllers/paddlejob/pods.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/meta/quantity.h"
#include "controllers/common/child.h"

namespace paddleop::controllers::paddlejob {
namespace {

using api::Json;

constexpr std::string_view kVolcano = "volcano";

// object[key] as an object or array to be filled, whatever stood there before.
Json& Ensure(Json& object, const char* key, Json::value_t type) {
  Json& value = object[key];
  if (value.type() != type) value = Json(type);
  return value;
}

Result<Json> ReadTemplate(const api::PaddleJob& job, Role role) {
  const auto where = [&] { return fmt::format("spec.{}.template", RoleName(role)); };
  auto parsed = api::ParseJson(RoleSpec(job.spec, role)->pod_template.text);
  if (!parsed) return std::unexpected(std::move(parsed).error().Wrap(where()));
  if (!parsed->is_object() || !(*parsed)["spec"].is_object() ||
      !(*parsed)["spec"]["containers"].is_array() || (*parsed)["spec"]["containers"].empty() ||
      !(*parsed)["spec"]["containers"][0].is_object()) {
    return Fail(Code::kInvalid, "{}: needs spec.containers with at least one container", where());
  }
  return *std::move(parsed);
}

void SetMetadata(const api::PaddleJob& job, Place place, std::int32_t gang, Json& pod) {
  const std::string name = PodName(job.metadata.name, place.role, place.index);
  Json& metadata = Ensure(pod, "metadata", Json::value_t::object);
  metadata["name"] = name;
  metadata["namespace"] = job.metadata.ns;
  for (const char* field : {"creationTimestamp", "generateName", "uid", "resourceVersion"})
    metadata.erase(field);
  metadata["ownerReferences"] = OwnerReferences(api::PaddleJob::kType, job.metadata);
  Json& labels = Ensure(metadata, "labels", Json::value_t::object);
  labels[std::string(kResNameLabel)] = name;
  labels[std::string(kResTypeLabel)] = RoleName(place.role);
  labels[std::string(kJobNameLabel)] = job.metadata.name;
  Json& annotations = Ensure(metadata, "annotations", Json::value_t::object);
  annotations[std::string(kResourceAnnotation)] = RoleName(place.role);
  annotations[std::string(kGangAnnotation)] = std::to_string(gang);
}

void SetVolcano(const api::PaddleJob& job, Role role, Json& pod) {
  pod["spec"]["schedulerName"] = kVolcano;
  Json& annotations = pod["metadata"]["annotations"];
  annotations["scheduling.k8s.io/group-name"] = job.metadata.name;
  annotations["volcano.sh/task-spec"] = RoleName(role);
  annotations["volcano.sh/job-name"] = job.metadata.name;
  annotations["volcano.sh/job-version"] = "0";
  annotations["volcano.sh/queue-name"] =
      job.spec.scheduling_policy ? job.spec.scheduling_policy->queue : "";
}

// Two words for one thing that both Kubernetes and users expect to be there once.
bool HasNamed(const Json& list, std::string_view name) {
  for (const Json& item : list) {
    if (item.is_object() && item.value("name", "") == name) return true;
  }
  return false;
}

void SetData(const api::SampleSetRef& ref, const DataPlacement& data, Json& pod) {
  Json& spec = pod["spec"];
  Json& volumes = Ensure(spec, "volumes", Json::value_t::array);
  if (!HasNamed(volumes, ref.name)) {
    volumes.push_back(
        {{"name", ref.name},
         {"persistentVolumeClaim", {{"claimName", ref.name}, {"readOnly", ref.read_only}}}});
  }
  Json& mounts = Ensure(spec["containers"][0], "volumeMounts", Json::value_t::array);
  bool mounted = false;
  for (const Json& mount : mounts)
    mounted = mounted || mount.value("mountPath", "") == ref.mount_path;
  if (!mounted) {
    mounts.push_back(
        {{"name", ref.name}, {"mountPath", ref.mount_path}, {"readOnly", ref.read_only}});
  }
  if (data.affinity == Affinity::kNone) return;

  const Json wish = {{"key", data.label}, {"operator", "In"}, {"values", {data.value}}};
  Json& node = Ensure(Ensure(spec, "affinity", Json::value_t::object), "nodeAffinity",
                      Json::value_t::object);
  if (data.affinity == Affinity::kPreferred) {
    Json& preferred =
        Ensure(node, "preferredDuringSchedulingIgnoredDuringExecution", Json::value_t::array);
    preferred.push_back({{"weight", 100}, {"preference", {{"matchExpressions", {wish}}}}});
  } else {
    Json& required =
        Ensure(node, "requiredDuringSchedulingIgnoredDuringExecution", Json::value_t::object);
    Json& terms = Ensure(required, "nodeSelectorTerms", Json::value_t::array);
    if (terms.empty()) terms.push_back(Json::object());
    // Terms are alternatives: ours must hold in each of them, or the user's own would be bypassed.
    for (Json& term : terms) {
      if (term.is_object()) Ensure(term, "matchExpressions", Json::value_t::array).push_back(wish);
    }
  }
  pod["metadata"]["annotations"][std::string(kDataAffinityAnnotation)] =
      data.affinity == Affinity::kRequired ? "required" : "preferred";
}

// Paddle's launchers count hosts: two workers of a collective job on one of them would each train
// alone.
void SpreadWorkers(const api::PaddleJob& job, Json& pod_spec) {
  Json& rules = Ensure(Ensure(pod_spec, "affinity", Json::value_t::object), "podAntiAffinity",
                       Json::value_t::object);
  Ensure(rules, "requiredDuringSchedulingIgnoredDuringExecution", Json::value_t::array)
      .push_back(
          {{"topologyKey", "kubernetes.io/hostname"},
           {"labelSelector",
            {{"matchLabels",
              {{kJobNameLabel, job.metadata.name}, {kResTypeLabel, RoleName(Role::kWorker)}}}}}});
}

void SetRestartPolicy(const api::PaddleJobSpec& spec, Role role, Json& pod_spec) {
  if (spec.elastic) {
    pod_spec["restartPolicy"] = "OnFailure";
  } else if (pod_spec.value("restartPolicy", "").empty()) {
    pod_spec["restartPolicy"] = spec.IsService() && role == Role::kWorker ? "OnFailure" : "Never";
  }
}

void SetContainer(const Settings& settings, const api::PaddleJob& job, Place place,
                  Json& pod_spec) {
  Json& container = pod_spec["containers"][0];
  Json env = PodEnvironment(settings, job, place, container);
  if (!job.spec.ps && place.role == Role::kWorker && job.spec.worker->replicas > 1 &&
      !AsksForAccelerator(pod_spec)) {
    // Without an accelerator Paddle's default backend initialises and then refuses to train.
    if (!HasNamed(env, "PADDLE_DISTRI_BACKEND"))
      env.push_back({{"name", "PADDLE_DISTRI_BACKEND"}, {"value", "gloo"}});
  }
  container["env"] = std::move(env);
  if (!job.spec.elastic) {
    Ensure(container, "envFrom", Json::value_t::array)
        .push_back({{"configMapRef", {{"name", job.metadata.name}}}});
  }
  if (job.spec.IsService()) {
    Json& ports = Ensure(container, "ports", Json::value_t::array);
    bool there = false;
    for (const Json& port : ports) there = there || port.value("containerPort", 0) == kPort;
    if (!there) ports.push_back({{"containerPort", kPort}, {"protocol", "TCP"}});
  }
}

// Adds what one container asks for; limits count where requests are missing.
Result<void> AddResources(const Json& container, std::int32_t times,
                          std::map<std::string, api::Quantity>& sum) {
  const auto resources = container.find("resources");
  if (resources == container.end() || !resources->is_object()) return {};
  Json wanted = resources->value("limits", Json::object());
  if (!wanted.is_object()) wanted = Json::object();
  const Json requests = resources->value("requests", Json::object());
  if (requests.is_object()) wanted.update(requests);
  for (const auto& [name, value] : wanted.items()) {
    ASSIGN_OR_RETURN(
        auto quantity,
        api::Quantity::Parse(value.is_string() ? value.get<std::string>() : value.dump()));
    if (!quantity.Multiply(times) || !sum[name].Add(quantity)) {
      return Fail(Code::kInvalid, "the sum of {} over all pods is too large", name);
    }
  }
  return {};
}

}  // namespace

Result<CreateObject> BuildPod(const Settings& settings, const api::PaddleJob& job, Place place,
                              std::int32_t gang, const DataPlacement& data) {
  ASSIGN_OR_RETURN(Json pod, ReadTemplate(job, place.role));
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  SetMetadata(job, place, gang, pod);
  Json& spec = pod["spec"];
  const std::string name = pod["metadata"]["name"];
  if (spec.value("hostname", "").empty()) spec["hostname"] = name;
  if (job.spec.IsService() && spec.value("subdomain", "").empty()) spec["subdomain"] = name;
  if (job.spec.IsHost()) {
    spec["hostNetwork"] = true;
    if (!job.spec.ps && place.role == Role::kWorker && job.spec.worker->replicas > 1)
      SpreadWorkers(job, spec);
  }
  SetRestartPolicy(job.spec, place.role, spec);
  SetContainer(settings, job, place, spec);
  if (settings.volcano && !NamesOtherScheduler(job)) SetVolcano(job, place.role, pod);
  if (job.spec.sample_set_ref && place.role == Role::kWorker)
    SetData(*job.spec.sample_set_ref, data, pod);
  return CreateObject{api::Pod::kType, {job.metadata.ns, name}, api::DumpJson(pod)};
}

CreateObject BuildService(const api::PaddleJob& job, Place place) {
  const std::string name = PodName(job.metadata.name, place.role, place.index);
  Json ports = Json::array();
  for (int i = 0; i < kPortsPerPod; ++i) {
    ports.push_back({{"name", fmt::format("p-{}", i)},
                     {"port", kPort + i},
                     {"targetPort", kPort + i},
                     {"protocol", "TCP"}});
  }
  // Trainers look each other up before they are ready.
  const Json service = {
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata",
       ChildMetadata(api::PaddleJob::kType, job.metadata, name,
                     {{std::string(kResNameLabel), name},
                      {std::string(kResTypeLabel), std::string(RoleName(place.role))}})},
      {"spec",
       {{"clusterIP", "None"},
        {"publishNotReadyAddresses", true},
        {"selector", {{kResNameLabel, name}}},
        {"ports", std::move(ports)}}}};
  return {api::Service::kType, {job.metadata.ns, name}, api::DumpJson(service)};
}

std::string ReplicasText(const api::PaddleJobSpec& spec) {
  std::string out;
  for (const Role role : kRoles) {
    if (Replicas(spec, role) == 0) continue;
    out += fmt::format("{}{}={}", out.empty() ? "" : ",", RoleName(role), Replicas(spec, role));
  }
  return out;
}

CreateObject BuildConfigMap(const api::PaddleJob& job, std::int32_t gang,
                            const api::StringMap& data, const std::string& members) {
  Json metadata = ChildMetadata(api::PaddleJob::kType, job.metadata, job.metadata.name,
                                {{std::string(kResNameLabel), job.metadata.name}});
  metadata["annotations"] = {{kGangAnnotation, std::to_string(gang)},
                             {kMembersAnnotation, members},
                             {kReplicasAnnotation, ReplicasText(job.spec)}};
  Json values = Json::object();
  for (const auto& [key, value] : data) values[key] = value;
  const Json config_map = {{"apiVersion", "v1"},
                           {"kind", "ConfigMap"},
                           {"metadata", std::move(metadata)},
                           {"data", std::move(values)}};
  return {api::ConfigMap::kType, job.metadata.Key(), api::DumpJson(config_map)};
}

std::int32_t MinMember(const api::PaddleJob& job) {
  const auto& policy = job.spec.scheduling_policy;
  return policy && policy->min_available ? *policy->min_available : TotalReplicas(job.spec);
}

Result<CreateObject> BuildPodGroup(const api::PaddleJob& job) {
  std::map<std::string, api::Quantity> sum;
  for (const Role role : kRoles) {
    const std::int32_t replicas = Replicas(job.spec, role);
    if (replicas == 0) continue;
    ASSIGN_OR_RETURN(const Json pod, ReadTemplate(job, role));
    for (const Json& container : pod["spec"]["containers"]) {
      auto added = AddResources(container, replicas, sum);
      if (!added) {
        return std::unexpected(
            std::move(added).error().Wrap(fmt::format("spec.{}.template", RoleName(role))));
      }
    }
  }
  Json spec = {{"minMember", MinMember(job)}};
  for (const auto& [name, quantity] : sum) spec["minResources"][name] = quantity.ToString();
  if (const auto& policy = job.spec.scheduling_policy) {
    if (!policy->min_resources.empty()) {
      spec["minResources"] = Json::object();
      for (const auto& [name, quantity] : policy->min_resources)
        spec["minResources"][name] = quantity;
    }
    if (!policy->queue.empty()) spec["queue"] = policy->queue;
    if (!policy->priority_class.empty()) spec["priorityClassName"] = policy->priority_class;
  }
  const Json group = {
      {"apiVersion", api::PodGroup::kType.ApiVersion()},
      {"kind", api::PodGroup::kType.kind},
      {"metadata", ChildMetadata(api::PaddleJob::kType, job.metadata, job.metadata.name, {})},
      {"spec", std::move(spec)}};
  return CreateObject{api::PodGroup::kType, job.metadata.Key(), api::DumpJson(group)};
}

bool NamesOtherScheduler(const api::PaddleJob& job) {
  for (const Role role : kRoles) {
    const auto& spec = RoleSpec(job.spec, role);
    if (!spec) continue;
    const auto pod = api::ParseJson(spec->pod_template.text);
    if (!pod || !pod->is_object() || !pod->contains("spec") || !(*pod)["spec"].is_object())
      continue;
    const std::string scheduler = (*pod)["spec"].value("schedulerName", "");
    if (!scheduler.empty() && scheduler != kVolcano) return true;
  }
  return false;
}

}  // namespace paddleop::controllers::paddlejob
