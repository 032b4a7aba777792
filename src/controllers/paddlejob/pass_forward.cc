#include "controllers/paddlejob/pass.h"

#include <fmt/format.h>

#include <set>

#include "controllers/common/child.h"
#include "controllers/paddlejob/addresses.h"
#include "controllers/paddlejob/data_gate.h"
#include "controllers/paddlejob/pods.h"

namespace paddleop::controllers::paddlejob {
namespace {

using std::chrono::seconds;
namespace phase = api::job_phase;

constexpr seconds kRetryPorts(30);

}  // namespace

void Pass::Advance() {
  ChangeStep cleaning;
  DeletePods(census_.stale, cleaning);
  DeletePods(census_.surplus, cleaning);
  if (!census_.surplus.empty()) {
    std::vector<std::string> names;
    names.reserve(census_.surplus.size());
    for (const auto& pod : census_.surplus) names.push_back(pod->metadata.name);
    plan_.Tell(false, "Scaled", "removed " + JoinNames(names));
  }
  if (seen_.config_map && GangOf(seen_.config_map->metadata) != job_.status.gang) {
    if (!seen_.config_map->metadata.Deleting()) AddStep({.deletes = {DeleteOf(*seen_.config_map)}});
  }
  DropSurplusServices(cleaning);
  AddStep(std::move(cleaning));

  if (!DataIsReady(seen_, plan_)) {
    const api::Condition* data = api::FindCondition(plan_.status.conditions, condition::kDataReady);
    NotRunning(phase::kPending, "WaitingForData", data->message);
    return;
  }
  if (!RestartDelayOver() || !QueueAdmits()) return;
  const auto relaxed = RelaxAffinity(seen_, census_, plan_);
  if (!relaxed.empty()) {
    plan_.status_first = true;
    ChangeStep step;
    DeletePods(relaxed, step);
    AddStep(std::move(step));
  }
  if (!CreateMissing()) return;
  if (!OpenGate()) return;
  if (job_.spec.elastic) plan_.elastic_np = Replicas(job_.spec, Role::kWorker);
  Judge();
}

void Pass::DropSurplusServices(ChangeStep& step) {
  for (const auto& service : seen_.services) {
    const auto place = PlaceOf(job_.metadata.name, service->metadata.name);
    const bool wanted =
        place && job_.spec.IsService() && place->index < Replicas(job_.spec, place->role);
    if (!wanted && !service->metadata.Deleting()) step.deletes.push_back(DeleteOf(*service));
  }
}

bool Pass::RestartDelayOver() {
  if (!job_.status.last_failure_time || job_.spec.elastic) return true;
  const auto until = *job_.status.last_failure_time + RestartDelay();
  if (seen_.now >= until || census_.Complete()) return true;
  plan_.RecheckAfter(until - seen_.now);
  NotRunning(phase::kRestarting, "Restarting", "waiting before the next start");
  return false;
}

bool Pass::QueueAdmits() {
  if (!settings_.volcano || NamesOtherScheduler(job_)) return true;
  if (!seen_.pod_group || seen_.pod_group->metadata.Deleting()) {
    auto group = BuildPodGroup(job_);
    if (!group) {
      Reject("InvalidSpec", group.error().message());
      return false;
    }
    // The old one may still be on its way out; its deletion brings us back here.
    if (!seen_.pod_group) AddStep({.creates = {*std::move(group)}});
    NotRunning(phase::kPending, "WaitingForQueue", "waiting for Volcano to admit the PodGroup");
    return census_.members.empty() ? false : true;
  }
  if (OwnsPodGroup() && !seen_.pod_group->applied_by_user &&
      seen_.pod_group->min_member != MinMember(job_)) {
    AddStep({.patches = {{api::PodGroup::kType, job_.metadata.Key(),
                          fmt::format(R"({{"spec":{{"minMember":{}}}}})", MinMember(job_))}}});
  }
  const std::string& state = seen_.pod_group->phase;
  // Once there are pods the group's phase follows them, and must not keep their successors from
  // being made.
  if (!census_.members.empty() || state == "Running" || state == "Inqueue") return true;
  NotRunning(phase::kPending, "WaitingForQueue",
             fmt::format("waiting for Volcano to admit the PodGroup (phase {})",
                         state.empty() ? "unset" : state));
  return false;
}

bool Pass::CreateMissing() {
  ChangeStep step;
  std::vector<std::string> names;
  std::vector<std::string> relaxed;
  std::set<std::string> services;
  for (const auto& service : seen_.services) services.insert(service->metadata.name);
  for (const Role role : kRoles) {
    for (std::int32_t i = 0; i < Replicas(job_.spec, role); ++i) {
      const Place place{role, i};
      const std::string name = PodName(job_.metadata.name, role, i);
      if (job_.spec.IsService() && !services.contains(name))
        step.creates.push_back(BuildService(job_, place));
      if (census_.taken.contains(place)) continue;
      const DataPlacement data = role == Role::kWorker ? PlaceWorker(seen_, i) : DataPlacement{};
      auto pod = BuildPod(settings_, job_, place, job_.status.gang, data);
      if (!pod) {
        Reject("InvalidSpec", pod.error().message());
        return false;
      }
      if (data.affinity == Affinity::kPreferred &&
          job_.spec.sample_set_ref->AffinityKind() == api::SampleSetRef::Affinity::kRequired) {
        relaxed.push_back(name);
      }
      step.creates.push_back(*std::move(pod));
      names.push_back(name);
    }
  }
  if (!names.empty())
    plan_.Tell(false, "Created", fmt::format("created pods {}", JoinNames(names)));
  if (!relaxed.empty()) {
    plan_.Tell(
        true, "AffinityRelaxed",
        fmt::format(
            "{}: the node that caches the partition is not available; preferred affinity is used",
            JoinNames(relaxed)));
  }
  AddStep(std::move(step));
  return true;
}

bool Pass::OpenGate() {
  if (job_.spec.elastic || !census_.Complete()) return true;
  if (seen_.config_map) return true;
  const AddressBook book = FindAddresses(seen_, census_);
  if (!book.problem.empty()) {
    Reject("NoAddresses", book.problem);
    if (job_.spec.IsHost()) plan_.RecheckAfter(kRetryPorts);
    return false;
  }
  if (!book.complete) return true;
  if (job_.spec.IsHost()) StorePorts();
  AddStep(
      {.creates = {BuildConfigMap(job_, job_.status.gang, SharedEnvironment(job_, book.addresses),
                                  MembersDigest(census_))}});
  return true;
}

void Pass::StorePorts() {
  if (StoredPortBlocks(job_.metadata) == seen_.port_blocks) return;
  const std::string all = fmt::format("{}", fmt::join(seen_.port_blocks, ","));
  plan_.job_patch =
      fmt::format(R"({{"metadata":{{"annotations":{{"{}":"{}","{}":"{}"}}}}}})",
                  kHostPortAnnotation, seen_.port_blocks.front(), kHostPortsAnnotation, all);
}

void Pass::Judge() {
  auto& status = plan_.status;
  // Until the pods of the last gang are gone there is nothing to say about this one.
  const bool leaving = !census_.stale.empty() ||
                       census_.taken.size() > census_.members.size() + census_.surplus.size();
  if (leaving && (status.phase == phase::kRestarting || status.phase == phase::kScaling)) {
    SetCondition(condition::kRunning, false, "Restarting", "pods of the last start are going away");
    return;
  }
  status.phase = ActivePhase(job_, status, status.phase);
  if (status.phase == phase::kRunning) {
    if (!status.start_time) status.start_time = seen_.now;
    SetCondition(condition::kRunning, true, "PodsRunning", "all pods run");
  } else {
    SetCondition(condition::kRunning, false, "WaitingForPods",
                 status.phase == phase::kStarting ? "containers are starting" : "pods are pending");
  }
}

}  // namespace paddleop::controllers::paddlejob
