#include "controllers/paddlejob/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paddleop::controllers::paddlejob {
namespace {

using api::Json;

std::string Join(const std::vector<Endpoint>& endpoints, bool ports) {
  std::string out;
  for (const auto& endpoint : endpoints) {
    if (!out.empty()) out += ',';
    out += ports ? endpoint.ToString() : endpoint.host;
  }
  return out;
}

// TRAINING_ROLE as Paddle's role makers know it.
std::string_view TrainingRole(Role role) {
  switch (role) {
    case Role::kPs:
      return "PSERVER";
    case Role::kWorker:
      return "TRAINER";
    case Role::kHeter:
      return "HETER_TRAINER";
  }
  return "TRAINER";
}

// Collects entries of an env list over those of a template.
class EnvList {
 public:
  explicit EnvList(const Json& container) {
    const auto it = container.find("env");
    if (it != container.end() && it->is_array()) list_ = *it;
  }

  void Set(std::string_view name, std::string value) {
    Put(Json{{"name", name}, {"value", std::move(value)}});
  }
  // Only if the template says nothing about it.
  void Suggest(std::string_view name, std::string value) {
    if (!Has(name)) Set(name, std::move(value));
  }
  void SetFromField(std::string_view name, std::string_view path) {
    Put(Json{{"name", name},
             {"valueFrom", {{"fieldRef", {{"apiVersion", "v1"}, {"fieldPath", path}}}}}});
  }
  void SetFromConfigMap(std::string_view name, std::string_view config_map, std::string_view key) {
    Put(Json{{"name", name},
             {"valueFrom", {{"configMapKeyRef", {{"name", config_map}, {"key", key}}}}}});
  }

  Json Take() { return std::move(list_); }

 private:
  bool Has(std::string_view name) const {
    return std::any_of(list_.begin(), list_.end(),
                       [&](const Json& entry) { return entry.value("name", "") == name; });
  }
  void Put(Json entry) {
    // The last entry of a name wins in a container; an earlier one of the same name would only
    // confuse.
    const std::string name = entry["name"];
    Json kept = Json::array();
    for (auto& old : list_) {
      if (old.value("name", "") != name) kept.push_back(std::move(old));
    }
    kept.push_back(std::move(entry));
    list_ = std::move(kept);
  }

  Json list_ = Json::array();
};

void AddElastic(const Settings& settings, const api::PaddleJob& job, EnvList& env) {
  const std::int32_t workers = Replicas(job.spec, Role::kWorker);
  env.Set("PADDLE_ELASTIC_JOB_ID", JobId(job.metadata));
  env.Set("PADDLE_ELASTIC_NP", std::to_string(workers));
  env.Suggest("PADDLE_ELASTIC_TIMEOUT", "60");
  // The launcher of today. It knows the number of nodes as a range, and etcd by its scheme.
  const auto& worker = *job.spec.worker;
  const std::int32_t least = worker.requests && *worker.requests > 0 ? *worker.requests : 1;
  const std::int32_t most =
      worker.limits && *worker.limits > 0 ? *worker.limits : std::max(workers, least);
  env.Set("PADDLE_NNODES", fmt::format("{}:{}", least, most));
  env.Suggest("PADDLE_ELASTIC_LEVEL", "1");
  env.Set("PADDLE_JOB_ID", JobId(job.metadata));
  if (!settings.etcd_servers.empty()) {
    // Both launchers take one address and fail on a list.
    env.Set("PADDLE_ELASTIC_SERVER", settings.etcd_servers.front());
    env.Set("PADDLE_MASTER", "etcd://" + settings.etcd_servers.front());
  }
  // The former launcher counts these names; it finds the hosts themselves in etcd.
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(std::max(workers, 0)));
  for (std::int32_t i = 0; i < workers; ++i)
    names.push_back(PodName(job.metadata.name, Role::kWorker, i));
  env.Set("PADDLE_TRAINERS", fmt::format("{}", fmt::join(names, ",")));
  env.Set("PADDLE_TRAINERS_NUM", std::to_string(workers));
  env.Set("TRAINER_PORTS_NUM", std::to_string(kPortsPerPod));
  env.Set("PADDLE_PORT", std::to_string(kPort));
}

// Worker 0 starts the master of `paddle.distributed.launch` only where the master's address is its
// own, and it knows itself by address, not by the Service's name. The others reach it by name.
void AddOwnAddress(const api::PaddleJob& job, EnvList& env) {
  env.SetFromField("PADDLE_POD_ADDRESS", "status.podIP");
  const std::string own = fmt::format("$(PADDLE_POD_ADDRESS):{}", kPort);
  std::string endpoints = own;
  for (std::int32_t i = 1; i < Replicas(job.spec, Role::kWorker); ++i) {
    endpoints += fmt::format(",{}:{}", PodName(job.metadata.name, Role::kWorker, i), kPort);
  }
  env.Set("PADDLE_CURRENT_ENDPOINT", own);
  env.Set("PADDLE_MASTER", own);
  env.Set("PADDLE_TRAINER_ENDPOINTS", endpoints);
}

std::string HeterDevice(const Json& container) {
  std::string device = "cpu";
  const auto resources = container.find("resources");
  if (resources == container.end() || !resources->is_object()) return device;
  for (const auto& [kind, list] : resources->items()) {
    if (!list.is_object()) continue;
    for (const auto& [name, value] : list.items()) {
      if (name.find("xpu") != std::string::npos) return "xpu";
      if (name.find("gpu") != std::string::npos) device = "gpu";
    }
  }
  return device;
}

// The pipeline of a heter job: workers are stage 1, heter trainers stage 2.
void AddHeter(const api::PaddleJob& job, Role role, const Json& container, EnvList& env) {
  if (!job.spec.heter || role == Role::kPs) return;
  const std::string& name = job.metadata.name;
  if (role == Role::kWorker) {
    env.Set("STAGE_ID", "1");
    env.SetFromConfigMap("PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST", name, "PADDLE_HETER_ENDPOINTS");
    env.Suggest("HETER_DEVICE_TYPE", "cpu");
  } else {
    env.Set("STAGE_ID", "2");
    if (job.spec.worker) {
      env.SetFromConfigMap("PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST", name,
                           "PADDLE_TRAINER_ENDPOINTS");
    }
    env.Suggest("HETER_DEVICE_TYPE", HeterDevice(container));
  }
}

}  // namespace

std::string PortKey(Role role, std::int32_t index) {
  return fmt::format("PADDLE_PORT.{}-{}", RoleName(role), index);
}

bool AsksForAccelerator(const Json& pod_spec) {
  const auto containers = pod_spec.find("containers");
  if (containers == pod_spec.end() || !containers->is_array()) return false;
  for (const Json& container : *containers) {
    const auto resources = container.find("resources");
    if (resources == container.end() || !resources->is_object()) continue;
    for (const char* kind : {"limits", "requests"}) {
      const auto list = resources->find(kind);
      if (list == resources->end() || !list->is_object()) continue;
      for (const auto& [name, value] : list->items()) {
        // Devices have a vendor's prefix; cpu, memory, storage and hugepages have none.
        if (name.find('/') != std::string::npos) return true;
      }
    }
  }
  return false;
}

api::StringMap SharedEnvironment(const api::PaddleJob& job, const Addresses& addresses) {
  api::StringMap data;
  const auto& spec = job.spec;
  data["TRAINER_PORTS_NUM"] = std::to_string(kPortsPerPod);
  data["PADDLE_JOB_ID"] = JobId(job.metadata);
  const auto* first = !addresses.worker.empty() ? &addresses.worker.front()
                      : !addresses.ps.empty()   ? &addresses.ps.front()
                                                : nullptr;
  data["PADDLE_PORT"] = std::to_string(first != nullptr ? first->port : kPort);
  if (spec.ps) data["PADDLE_PSERVERS_IP_PORT_LIST"] = Join(addresses.ps, true);
  if (spec.worker) {
    data["PADDLE_TRAINER_ENDPOINTS"] = Join(addresses.worker, true);
    data["PADDLE_TRAINERS"] = Join(addresses.worker, false);
    data["PADDLE_TRAINERS_NUM"] = std::to_string(spec.worker->replicas);
    if (!spec.ps && !addresses.worker.empty()) {
      data["PADDLE_MASTER"] = addresses.worker.front().ToString();
      data["PADDLE_NNODES"] = std::to_string(spec.worker->replicas);
    }
  }
  if (spec.heter) {
    const std::string heter = Join(addresses.heter, true);
    data["PADDLE_HETER_ENDPOINTS"] = heter;
    data["PADDLE_HETER_TRAINER_IP_PORT_LIST"] = heter;
    data["PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST"] = heter;
    data["STAGE_NUM"] = "2";
    data["PADDLE_STAGE_TRAINERS_NUM"] =
        fmt::format("[{}, {}]", Replicas(spec, Role::kWorker), Replicas(spec, Role::kHeter));
  }
  if (spec.with_gloo.value_or(0) > 0 && !addresses.ps.empty()) {
    const Endpoint& server = addresses.ps.front();
    data["PADDLE_WITH_GLOO"] = std::to_string(*spec.with_gloo);
    data["PADDLE_GLOO_RENDEZVOUS"] = "3";
    data["PADDLE_GLOO_HTTP_ENDPOINT"] =
        Endpoint{server.host, server.port + kGlooPortOffset}.ToString();
  }
  if (spec.IsHost()) {
    for (const Role role : kRoles) {
      const auto& endpoints = addresses.Of(role);
      for (std::size_t i = 0; i < endpoints.size(); ++i) {
        data[PortKey(role, static_cast<std::int32_t>(i))] = std::to_string(endpoints[i].port);
      }
    }
  }
  return data;
}

Json PodEnvironment(const Settings& settings, const api::PaddleJob& job, Place place,
                    const Json& container) {
  EnvList env(container);
  const auto& spec = job.spec;
  const std::string index = std::to_string(place.index);
  if (spec.IsService()) {
    env.Set("POD_IP", PodName(job.metadata.name, place.role, place.index));
  } else {
    env.SetFromField("POD_IP", "status.podIP");
  }
  env.Set("PADDLE_TRAINER_ID", index);
  env.Set("TRAINING_ROLE", std::string(TrainingRole(place.role)));
  env.Set("PADDLE_TRAINING_ROLE", std::string(TrainingRole(place.role)));

  if (spec.elastic) {
    AddElastic(settings, job, env);
  } else if (spec.IsHost()) {
    env.SetFromConfigMap("PADDLE_PORT", job.metadata.name, PortKey(place.role, place.index));
    env.Set("PADDLE_CURRENT_ENDPOINT", "$(POD_IP):$(PADDLE_PORT)");
  } else {
    env.Set("PADDLE_CURRENT_ENDPOINT", fmt::format("$(POD_IP):{}", kPort));
  }

  const bool collective = !spec.ps && place.role == Role::kWorker;
  if (collective && !spec.elastic) {
    // Without it `paddle.distributed.launch` numbers the nodes as they come.
    env.Suggest("PADDLE_RANK", index);
    if (spec.IsService() && place.index == 0) AddOwnAddress(job, env);
  }
  if (!spec.elastic) AddHeter(job, place.role, container, env);
  return env.Take();
}

}  // namespace paddleop::controllers::paddlejob
