// Names, labels and annotations of what a PaddleJob owns. Users and other tools know them: they are
// API.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/batch/paddle_job.h"
#include "api/core/pod.h"

namespace paddleop::controllers::paddlejob {

// Everybody's addresses, as the ConfigMap of a job lists them.
inline constexpr const char* kAddressLists[] = {
    "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_HETER_ENDPOINTS"};

enum class Role : std::uint8_t { kPs, kWorker, kHeter };
// In the order in which pods are created and phases judged.
inline constexpr std::array<Role, 3> kRoles = {Role::kPs, Role::kWorker, Role::kHeter};

inline constexpr std::string_view kResNameLabel = "paddle-res-name";
inline constexpr std::string_view kResTypeLabel = "paddle-res-type";
inline constexpr std::string_view kJobNameLabel = "paddlepaddle.org/job-name";
inline constexpr std::string_view kResourceAnnotation = "paddle-resource";
inline constexpr std::string_view kHostPortAnnotation = "host-port";
// Further blocks of a job that has several pods on one node.
inline constexpr std::string_view kHostPortsAnnotation = "paddlepaddle.org/host-ports";
// The start a pod or ConfigMap belongs to (PaddleJobStatus::gang).
inline constexpr std::string_view kGangAnnotation = "paddlepaddle.org/gang";
// On the ConfigMap: which pods its addresses are of, and how many of each role there were.
inline constexpr std::string_view kMembersAnnotation = "paddlepaddle.org/members";
inline constexpr std::string_view kReplicasAnnotation = "paddlepaddle.org/replicas";
// On a worker: required or preferred, where it has affinity to its partition of the SampleSet.
inline constexpr std::string_view kDataAffinityAnnotation = "paddlepaddle.org/data-affinity";
// Jobs of former versions carry it; we take it off and put none on: owner references clean up.
inline constexpr std::string_view kFinalizer = "finalizers.paddlepaddle.org";

inline constexpr int kPort = 2379;       // of every pod, unless it shares its node's network
inline constexpr int kPortsPerPod = 20;  // kPort and those after it
inline constexpr int kGlooPortOffset = 18;

// "ps", "worker", "heter"
std::string_view RoleName(Role role);
const std::optional<api::JobRole>& RoleSpec(const api::PaddleJobSpec& spec, Role role);
std::optional<api::JobRoleStatus>& RoleStatus(api::PaddleJobStatus& status, Role role);
// How many pods the role asks for; 0 where it is absent.
std::int32_t Replicas(const api::PaddleJobSpec& spec, Role role);
std::int32_t TotalReplicas(const api::PaddleJobSpec& spec);

// <job>-<role>-<index>
std::string PodName(std::string_view job, Role role, std::int32_t index);

struct Place {
  Role role;
  std::int32_t index;
  auto operator<=>(const Place&) const = default;
};
// Which of the job's pods this is, by its name; nullopt for none.
std::optional<Place> PlaceOf(std::string_view job, std::string_view pod_name);

// The gang number of a pod or ConfigMap; 0 without the annotation.
std::int32_t GangOf(const api::ObjectMeta& meta);

// <namespace>-<job>: the job's identity in etcd and for Paddle's launchers.
std::string JobId(const api::ObjectMeta& job);

}  // namespace paddleop::controllers::paddlejob
