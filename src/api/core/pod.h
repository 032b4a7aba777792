#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta/object_meta.h"

namespace paddleop::api {

enum class PodPhase : std::uint8_t { kUnknown, kPending, kRunning, kSucceeded, kFailed };
std::string_view PodPhaseName(PodPhase phase);

struct ContainerStatus {
  enum class State : std::uint8_t { kWaiting, kRunning, kTerminated };

  std::string name;
  State state = State::kWaiting;
  bool ready = false;
  std::int32_t restart_count = 0;
  std::int32_t exit_code = 0;  // of the termination
  std::string reason;          // why it waits or ended: CrashLoopBackOff, OOMKilled, Error
  std::string message;

  bool operator==(const ContainerStatus&) const = default;
};

// What controllers read of a pod. Informers keep ten thousand of them, so nothing else is kept: in
// particular not the spec that we wrote ourselves.
struct Pod {
  static constexpr ResourceType kType{"", "v1", "pods", "Pod", true};

  ObjectMeta metadata;
  std::string node_name;
  std::string service_account;
  bool host_network = false;

  PodPhase phase = PodPhase::kUnknown;
  std::string reason;
  std::string message;
  std::string pod_ip;
  std::vector<std::string> pod_ips;  // only where there is more than one
  std::string host_ip;
  std::optional<Time> start_time;
  bool ready = false;
  // The scheduler tried and found no node; since when.
  std::optional<Time> unschedulable_since;
  std::string unschedulable_message;
  std::vector<ContainerStatus> init_containers;
  std::vector<ContainerStatus> containers;

  // All containers run and are ready, all init containers are done.
  bool FullyRunning() const;
  bool Finished() const { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }

  static Result<Pod> FromJson(const Json& json);
  bool operator==(const Pod&) const = default;
};

}  // namespace paddleop::api
