#include "api/core/pod.h"

#include <algorithm>

#include "api/internal/meta_fields.h"

namespace paddleop::api {
namespace {

using internal::Child;

PodPhase ParsePhase(const std::string& name) {
  if (name == "Pending") return PodPhase::kPending;
  if (name == "Running") return PodPhase::kRunning;
  if (name == "Succeeded") return PodPhase::kSucceeded;
  if (name == "Failed") return PodPhase::kFailed;
  return PodPhase::kUnknown;
}

// The text of object[key], or "".
std::string Text(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

ContainerStatus ReadContainer(const Json& json) {
  ContainerStatus out;
  out.name = Text(json, "name");
  const Json& ready = Child(json, "ready");
  out.ready = ready.is_boolean() && ready.get<bool>();
  const Json& restarts = Child(json, "restartCount");
  if (restarts.is_number_integer()) out.restart_count = restarts.get<std::int32_t>();
  const Json& state = Child(json, "state");
  const Json& terminated = Child(state, "terminated");
  if (Child(state, "running").is_object()) {
    out.state = ContainerStatus::State::kRunning;
  } else if (terminated.is_object()) {
    out.state = ContainerStatus::State::kTerminated;
    const Json& code = Child(terminated, "exitCode");
    if (code.is_number_integer()) out.exit_code = code.get<std::int32_t>();
    out.reason = Text(terminated, "reason");
    out.message = Text(terminated, "message");
  } else {
    const Json& waiting = Child(state, "waiting");
    out.reason = Text(waiting, "reason");
    out.message = Text(waiting, "message");
  }
  return out;
}

std::vector<ContainerStatus> ReadContainers(const Json& list) {
  std::vector<ContainerStatus> out;
  if (!list.is_array()) return out;
  out.reserve(list.size());
  for (const auto& item : list) out.push_back(ReadContainer(item));
  return out;
}

void ReadConditions(const Json& list, Pod& pod) {
  if (!list.is_array()) return;
  for (const auto& item : list) {
    const std::string type = Text(item, "type");
    const std::string status = Text(item, "status");
    if (type == "Ready") pod.ready = status == "True";
    if (type == "PodScheduled" && status == "False" && Text(item, "reason") == "Unschedulable") {
      const auto since = ParseTime(Text(item, "lastTransitionTime"));
      pod.unschedulable_since = since ? std::optional(*since) : pod.metadata.creation_timestamp;
      pod.unschedulable_message = Text(item, "message");
    }
  }
}

void ReadAddresses(const Json& status, Pod& pod) {
  pod.pod_ip = Text(status, "podIP");
  pod.host_ip = Text(status, "hostIP");
  const Json& all = Child(status, "podIPs");
  if (!all.is_array() || all.size() < 2) return;
  for (const auto& item : all) pod.pod_ips.push_back(Text(item, "ip"));
}

}  // namespace

std::string_view PodPhaseName(PodPhase phase) {
  switch (phase) {
    case PodPhase::kPending:
      return "Pending";
    case PodPhase::kRunning:
      return "Running";
    case PodPhase::kSucceeded:
      return "Succeeded";
    case PodPhase::kFailed:
      return "Failed";
    case PodPhase::kUnknown:
      return "Unknown";
  }
  return "Unknown";
}

bool Pod::FullyRunning() const {
  using State = ContainerStatus::State;
  if (phase != PodPhase::kRunning || containers.empty()) return false;
  // A restartable init container (a side car) keeps running; the others have ended.
  const bool initialised =
      std::all_of(init_containers.begin(), init_containers.end(), [](const auto& c) {
        return (c.state == State::kTerminated && c.exit_code == 0) ||
               (c.state == State::kRunning && c.ready);
      });
  return initialised && std::all_of(containers.begin(), containers.end(), [](const auto& c) {
           return c.state == State::kRunning && c.ready;
         });
}

Result<Pod> Pod::FromJson(const Json& json) {
  Pod pod;
  ASSIGN_OR_RETURN(pod.metadata, ObjectMetaFromJson(Child(json, "metadata")));
  const Json& spec = Child(json, "spec");
  pod.node_name = Text(spec, "nodeName");
  pod.service_account = Text(spec, "serviceAccountName");
  const Json& host_network = Child(spec, "hostNetwork");
  pod.host_network = host_network.is_boolean() && host_network.get<bool>();

  const Json& status = Child(json, "status");
  pod.phase = ParsePhase(Text(status, "phase"));
  pod.reason = Text(status, "reason");
  pod.message = Text(status, "message");
  ReadAddresses(status, pod);
  if (const auto start = ParseTime(Text(status, "startTime"))) pod.start_time = *start;
  ReadConditions(Child(status, "conditions"), pod);
  pod.init_containers = ReadContainers(Child(status, "initContainerStatuses"));
  pod.containers = ReadContainers(Child(status, "containerStatuses"));
  return pod;
}

template Result<Pod> ParseAs<Pod>(std::string_view);

}  // namespace paddleop::api
