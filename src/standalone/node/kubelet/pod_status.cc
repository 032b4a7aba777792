#include "standalone/node/kubelet/pod_status.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paddleop::standalone::node {
namespace {

using api::Json;
using State = ContainerView::State;

Json TerminatedJson(const Termination& ended) {
  Json out = {{"exitCode", ended.code},
              {"reason", ended.reason},
              {"startedAt", api::FormatTime(ended.started)},
              {"finishedAt", api::FormatTime(ended.finished)},
              {"containerID", ended.id}};
  if (!ended.message.empty()) out["message"] = ended.message;
  return out;
}

Json StateJson(const ContainerView& view) {
  switch (view.state) {
    case State::kRunning:
      return {{"running", {{"startedAt", api::FormatTime(view.started_at)}}}};
    case State::kTerminated:
      return {{"terminated", TerminatedJson(view.ended)}};
    case State::kWaiting:
      break;
  }
  Json waiting = {{"reason", view.reason.empty() ? "ContainerCreating" : view.reason}};
  if (!view.message.empty()) waiting["message"] = view.message;
  return {{"waiting", std::move(waiting)}};
}

Json ContainerJson(const ContainerView& view) {
  Json out = {
      {"name", view.name},        {"image", view.image},        {"imageID", ""},
      {"ready", view.ready},      {"started", view.started},    {"restartCount", view.restarts},
      {"state", StateJson(view)}, {"lastState", Json::object()}};
  if (!view.id.empty()) out["containerID"] = view.id;
  if (view.last) out["lastState"] = {{"terminated", TerminatedJson(*view.last)}};
  return out;
}

void SetCondition(Json& conditions, const char* type, bool value, const std::string& reason,
                  const std::string& message, api::Time now) {
  Json* found = nullptr;
  for (Json& each : conditions) {
    if (each.value("type", "") == type) found = &each;
  }
  if (found == nullptr) {
    conditions.push_back({{"type", type}});
    found = &conditions.back();
  }
  const char* status = value ? "True" : "False";
  if (found->value("status", "") != status) {
    (*found)["status"] = status;
    (*found)["lastTransitionTime"] = api::FormatTime(now);
  }
  (*found)["lastProbeTime"] = nullptr;
  found->erase("reason");
  found->erase("message");
  if (!reason.empty()) (*found)["reason"] = reason;
  if (!message.empty()) (*found)["message"] = message;
}

std::string NamesOf(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
  return out;
}

void SetConditions(const PodSpec& pod, const PodView& view, const std::string& phase, api::Time now,
                   Json& conditions) {
  const bool done = phase == "Succeeded";
  const bool over = done || phase == "Failed";
  SetCondition(conditions, "PodReadyToStartContainers", !view.pod_ip.empty() && !over, "", "", now);
  std::vector<std::string> waiting;
  for (const ContainerView& each : view.init_containers) {
    if (!each.Succeeded() && !(each.started && each.state == State::kRunning))
      waiting.push_back(each.name);
  }
  const bool initialized = Initialized(pod, view) || done;
  SetCondition(
      conditions, "Initialized", initialized,
      done ? "PodCompleted" : (initialized ? "" : "ContainersNotInitialized"),
      initialized ? "" : fmt::format("containers with incomplete status: [{}]", NamesOf(waiting)),
      now);
  std::vector<std::string> unready;
  for (const ContainerView& each : view.containers) {
    if (!each.ready) unready.push_back(each.name);
  }
  const bool ready = unready.empty() && initialized && !over;
  std::string reason;
  std::string message;
  if (!ready) {
    reason = done ? "PodCompleted" : (phase == "Failed" ? "PodFailed" : "ContainersNotReady");
    if (!over) message = fmt::format("containers with unready status: [{}]", NamesOf(unready));
  }
  SetCondition(conditions, "ContainersReady", ready, reason, message, now);
  SetCondition(conditions, "Ready", ready, reason, message, now);
}

}  // namespace

bool Initialized(const PodSpec& pod, const PodView& view) {
  for (std::size_t i = 0; i < view.init_containers.size(); ++i) {
    const ContainerView& each = view.init_containers[i];
    const bool sidecar = i < pod.init_containers.size() && pod.init_containers[i].sidecar;
    if (sidecar ? !each.started : !each.Succeeded()) return false;
  }
  return true;
}

std::string PhaseOf(const PodSpec& pod, const PodView& view) {
  if (!view.failure_reason.empty()) return "Failed";
  for (std::size_t i = 0; i < view.init_containers.size(); ++i) {
    const bool sidecar = i < pod.init_containers.size() && pod.init_containers[i].sidecar;
    if (!sidecar && view.init_containers[i].FailedForGood(pod.restart)) return "Failed";
  }
  if (!Initialized(pod, view)) return "Pending";
  int running = 0;
  int waiting = 0;
  int succeeded = 0;
  int failed = 0;
  for (const ContainerView& each : view.containers) {
    switch (each.state) {
      case State::kRunning:
        ++running;
        break;
      case State::kWaiting:
        // Between two runs it counts as it ended.
        ++(each.last ? running : waiting);
        break;
      case State::kTerminated:
        ++(each.ended.code == 0 ? succeeded : failed);
        break;
    }
  }
  if (waiting > 0) return "Pending";
  if (running > 0) return "Running";
  if (pod.restart == RestartPolicy::kAlways) return "Running";
  if (failed > 0) return pod.restart == RestartPolicy::kNever ? "Failed" : "Running";
  return succeeded > 0 ? "Succeeded" : "Pending";
}

std::string StatusJson(const PodSpec& pod, const PodView& view, api::Time now) {
  auto parsed = api::ParseJson(pod.status.text);
  Json status = parsed && parsed->is_object() ? *std::move(parsed) : Json::object();
  const std::string phase = PhaseOf(pod, view);
  status["phase"] = phase;
  status["startTime"] = api::FormatTime(view.start_time);
  status["hostIP"] = view.host_ip;
  status["hostIPs"] = {{{"ip", view.host_ip}}};
  if (!view.pod_ip.empty()) {
    status["podIP"] = view.pod_ip;
    status["podIPs"] = {{{"ip", view.pod_ip}}};
  }
  if (!view.failure_reason.empty()) {
    status["reason"] = view.failure_reason;
    status["message"] = view.failure_message;
  }
  if (!status["conditions"].is_array()) status["conditions"] = Json::array();
  SetConditions(pod, view, phase, now, status["conditions"]);
  Json containers = Json::array();
  for (const ContainerView& each : view.containers) containers.push_back(ContainerJson(each));
  status["containerStatuses"] = std::move(containers);
  if (!view.init_containers.empty()) {
    Json init = Json::array();
    for (const ContainerView& each : view.init_containers) init.push_back(ContainerJson(each));
    status["initContainerStatuses"] = std::move(init);
  }
  return api::DumpJson(status);
}

}  // namespace paddleop::standalone::node
