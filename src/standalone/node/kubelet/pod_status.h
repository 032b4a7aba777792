// The status a kubelet reports of a pod. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/meta/time.h"
#include "standalone/node/kubelet/pod_spec.h"

namespace paddleop::standalone::node {

struct Termination {
  int code = 0;
  std::string reason;  // Completed, Error, StartError, ContainerStatusUnknown
  std::string message;
  api::Time started{};
  api::Time finished{};
  std::string id;
};

struct ContainerView {
  enum class State : std::uint8_t { kWaiting, kRunning, kTerminated };

  std::string name;
  std::string image;
  State state = State::kWaiting;
  std::string reason;   // of waiting
  std::string message;  // of waiting
  api::Time started_at{};
  std::string id;
  Termination ended;  // kTerminated
  std::optional<Termination> last;
  int restarts = 0;
  bool started = false;  // its startup probe has passed
  bool ready = false;

  bool Succeeded() const { return state == State::kTerminated && ended.code == 0; }
  bool FailedForGood(RestartPolicy policy) const {
    return state == State::kTerminated && ended.code != 0 && policy == RestartPolicy::kNever;
  }
};

struct PodView {
  std::string host_ip;
  std::string pod_ip;  // empty until the pod has a network
  bool volumes_ready = false;
  api::Time start_time{};
  std::vector<ContainerView> init_containers;
  std::vector<ContainerView> containers;
  // Set when the node gave the pod up: DeadlineExceeded, ...
  std::string failure_reason;
  std::string failure_message;
};

// Pending, Running, Succeeded or Failed, by kubelet's rules.
std::string PhaseOf(const PodSpec& pod, const PodView& view);
// Are all init containers done (or, sidecars, started)?
bool Initialized(const PodSpec& pod, const PodView& view);

// pod.status with what the node knows put in; what others wrote (PodScheduled, qosClass) stays, and
// a condition keeps its transition time while its status is the same.
std::string StatusJson(const PodSpec& pod, const PodView& view, api::Time now);

}  // namespace paddleop::standalone::node
