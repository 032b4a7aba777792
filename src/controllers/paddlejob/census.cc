#include "controllers/paddlejob/census.h"

#include <fmt/format.h>

#include "base/crypto.h"

namespace paddleop::controllers::paddlejob {
namespace {

// References beyond this many would make the status of a large job larger than the job.
constexpr std::size_t kMostReferences = 100;

void Count(const api::Pod& pod, api::JobRoleStatus& status) {
  switch (pod.phase) {
    case api::PodPhase::kPending:
      ++status.pending;
      break;
    case api::PodPhase::kRunning:
      ++(pod.FullyRunning() ? status.running : status.starting);
      break;
    case api::PodPhase::kSucceeded:
      ++status.succeeded;
      break;
    case api::PodPhase::kFailed:
      ++status.failed;
      break;
    case api::PodPhase::kUnknown:
      // A pod that was just created has no phase yet.
      ++(pod.node_name.empty() ? status.pending : status.unknown);
      break;
  }
}

}  // namespace

Census TakeCensus(const Observed& seen) {
  Census census;
  const auto& job = *seen.job;
  census.wanted = TotalReplicas(job.spec);
  for (const auto& pod : seen.pods) {
    const auto place = PlaceOf(job.metadata.name, pod->metadata.name);
    if (!place) continue;
    census.taken.insert(*place);
    if (pod->metadata.Deleting()) continue;
    if (GangOf(pod->metadata) != job.status.gang) {
      census.stale.push_back(pod);
    } else if (place->index >= Replicas(job.spec, place->role)) {
      census.surplus.push_back(pod);
    } else {
      census.members.emplace(*place, pod);
      if (pod->phase == api::PodPhase::kFailed) census.failed.emplace_back(*place, pod);
    }
  }
  return census;
}

api::JobRoleStatus CountRole(const Census& census, const api::PaddleJob& job, Role role) {
  api::JobRoleStatus status;
  std::int32_t found = 0;
  for (auto it = census.members.lower_bound({role, 0});
       it != census.members.end() && it->first.role == role; ++it) {
    const api::Pod& pod = *it->second;
    ++found;
    Count(pod, status);
    if (status.refs.size() < kMostReferences) {
      status.refs.push_back({.api_version = "v1",
                             .kind = "Pod",
                             .ns = pod.metadata.ns,
                             .name = pod.metadata.name,
                             .uid = pod.metadata.uid});
    }
  }
  status.pending += Replicas(job.spec, role) - found;
  return status;
}

bool HasSucceeded(const Census& census, const api::PaddleJob& job) {
  const bool by_workers = Replicas(job.spec, Role::kWorker) > 0;
  std::int32_t needed = 0;
  std::int32_t succeeded = 0;
  for (const Role role : kRoles) {
    if (!by_workers || role == Role::kWorker) needed += Replicas(job.spec, role);
  }
  for (const auto& [place, pod] : census.members) {
    if (by_workers && place.role != Role::kWorker) continue;
    if (pod->phase == api::PodPhase::kSucceeded) ++succeeded;
  }
  return needed > 0 && succeeded == needed;
}

std::string ActivePhase(const api::PaddleJob& job, const api::PaddleJobStatus& counted,
                        const std::string& before) {
  bool all_run = true;
  bool pending = false;
  bool starting = false;
  for (const Role role : kRoles) {
    const auto& status = RoleStatus(const_cast<api::PaddleJobStatus&>(counted), role);
    if (!status) continue;
    all_run = all_run && status->running + status->succeeded == Replicas(job.spec, role);
    pending = pending || status->pending > 0;
    starting = starting || status->starting > 0;
  }
  if (all_run) return std::string(api::job_phase::kRunning);
  if (pending) return std::string(api::job_phase::kPending);
  if (starting) return std::string(api::job_phase::kStarting);
  return before.empty() ? std::string(api::job_phase::kPending) : before;
}

std::string WhyFailed(const api::Pod& pod) {
  using State = api::ContainerStatus::State;
  for (const auto* list : {&pod.init_containers, &pod.containers}) {
    for (const auto& container : *list) {
      if (container.state != State::kTerminated || container.exit_code == 0) continue;
      return fmt::format("{}: container {} exited with {}{}", pod.metadata.name, container.name,
                         container.exit_code,
                         container.reason.empty() ? "" : fmt::format(" ({})", container.reason));
    }
  }
  if (pod.reason.empty()) return pod.metadata.name + ": failed";
  return fmt::format("{}: {}{}{}", pod.metadata.name, pod.reason, pod.message.empty() ? "" : ": ",
                     pod.message);
}

std::string MembersDigest(const Census& census) {
  std::string all;
  for (const auto& [place, pod] : census.members)
    all += pod->metadata.name + "=" + pod->metadata.uid + "\n";
  return HexEncode(Sha256(all)).substr(0, 32);
}

}  // namespace paddleop::controllers::paddlejob
