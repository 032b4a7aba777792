#include "standalone/node/kubelet/pod_status.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paddleop::standalone::node {
namespace {

using State = ContainerView::State;

PodSpec Pod(RestartPolicy restart, int init = 0, int containers = 1) {
  PodSpec pod;
  pod.restart = restart;
  pod.init_containers.resize(static_cast<std::size_t>(init));
  pod.containers.resize(static_cast<std::size_t>(containers));
  pod.status.text =
      R"({"qosClass":"BestEffort","conditions":[{"type":"PodScheduled","status":"True"}]})";
  return pod;
}

ContainerView View(State state, int code = 0) {
  ContainerView view;
  view.name = "c";
  view.state = state;
  view.ended.code = code;
  view.started = view.ready = state == State::kRunning;
  return view;
}

std::string ConditionStatus(const nlohmann::json& status, const std::string& type) {
  for (const auto& condition : status["conditions"]) {
    if (condition["type"] == type) return condition["status"];
  }
  return "";
}

std::string Phase(RestartPolicy restart, std::vector<ContainerView> containers,
                  std::vector<ContainerView> init = {}) {
  PodView view;
  view.containers = std::move(containers);
  view.init_containers = std::move(init);
  return PhaseOf(Pod(restart, static_cast<int>(view.init_containers.size()),
                     static_cast<int>(view.containers.size())),
                 view);
}

TEST(PhaseOf, FollowsTheContainers) {
  const auto never = RestartPolicy::kNever;
  EXPECT_EQ(Phase(never, {View(State::kWaiting)}), "Pending");
  EXPECT_EQ(Phase(never, {View(State::kRunning), View(State::kWaiting)}), "Pending");
  EXPECT_EQ(Phase(never, {View(State::kRunning), View(State::kTerminated, 1)}), "Running");
  EXPECT_EQ(Phase(never, {View(State::kTerminated), View(State::kTerminated)}), "Succeeded");
  EXPECT_EQ(Phase(never, {View(State::kTerminated), View(State::kTerminated, 3)}), "Failed");
  EXPECT_EQ(Phase(RestartPolicy::kOnFailure, {View(State::kTerminated, 3)}), "Running");
  EXPECT_EQ(Phase(RestartPolicy::kOnFailure, {View(State::kTerminated)}), "Succeeded");
  EXPECT_EQ(Phase(RestartPolicy::kAlways, {View(State::kTerminated)}), "Running");
  ContainerView crashed = View(State::kWaiting);
  crashed.last = Termination{.code = 1};
  EXPECT_EQ(Phase(RestartPolicy::kAlways, {crashed}), "Running");
}

TEST(PhaseOf, WaitsForInitContainers) {
  const auto never = RestartPolicy::kNever;
  EXPECT_EQ(Phase(never, {View(State::kWaiting)}, {View(State::kRunning)}), "Pending");
  EXPECT_EQ(Phase(never, {View(State::kWaiting)}, {View(State::kTerminated, 1)}), "Failed");
  EXPECT_EQ(Phase(never, {View(State::kRunning)}, {View(State::kTerminated)}), "Running");
}

TEST(StatusJson, KeepsWhatOthersWroteAndTimesOfTransitions) {
  PodSpec pod = Pod(RestartPolicy::kNever);
  PodView view;
  view.host_ip = "10.0.0.1";
  view.pod_ip = "10.0.0.2";
  view.containers = {View(State::kRunning)};
  const api::Time first{std::chrono::seconds(1'000'000)};
  const auto status = nlohmann::json::parse(StatusJson(pod, view, first));
  EXPECT_EQ(status["qosClass"], "BestEffort");
  EXPECT_EQ(status["phase"], "Running");
  EXPECT_EQ(status["podIPs"][0]["ip"], "10.0.0.2");
  EXPECT_EQ(status["conditions"][0]["type"], "PodScheduled");
  EXPECT_EQ(ConditionStatus(status, "Ready"), "True");
  pod.status.text = status.dump();
  // An hour later nothing has changed.
  EXPECT_EQ(nlohmann::json::parse(StatusJson(pod, view, first + std::chrono::hours(1))), status);
  view.containers = {View(State::kTerminated, 137)};
  const auto failed = nlohmann::json::parse(StatusJson(pod, view, first + std::chrono::hours(2)));
  EXPECT_EQ(failed["phase"], "Failed");
  EXPECT_EQ(ConditionStatus(failed, "Ready"), "False");
  EXPECT_EQ(failed["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
}

}  // namespace
}  // namespace paddleop::standalone::node
