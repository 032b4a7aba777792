#include "controllers/paddlejob/pass.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/batch/rules.h"
#include "controllers/common/child.h"

namespace paddleop::controllers::paddlejob {
namespace {

namespace phase = api::job_phase;

}  // namespace

Pass::Pass(const Settings& settings, const Observed& seen)
    : settings_(settings), seen_(seen), job_(*seen.job), census_(TakeCensus(seen)) {
  plan_.status = job_.status;
}

Plan Pass::Run() {
  if (job_.metadata.Deleting()) return Deleted();
  if (job_.status.Finished()) {
    CleanUp();
    return std::move(plan_);
  }
  const bool first_look = job_.status.observed_generation != job_.metadata.generation;
  plan_.status.observed_generation = job_.metadata.generation;
  plan_.status.mode = job_.spec.Mode();
  if (Accept(first_look)) {
    CountPods();
    if (!Suspend() && !MissDeadline() && !Finish() && !NextGang()) Advance();
  }
  return std::move(plan_);
}

void Pass::SetCondition(const char* type, bool value, std::string reason, std::string message) {
  api::SetCondition(plan_.status.conditions,
                    {.type = type,
                     .status = std::string(value ? api::kStatusTrue : api::kStatusFalse),
                     .observed_generation = job_.metadata.generation,
                     .reason = std::move(reason),
                     .message = std::move(message)},
                    seen_.now);
}

void Pass::NotRunning(std::string_view new_phase, std::string reason, std::string message) {
  plan_.status.phase = new_phase;
  SetCondition(condition::kRunning, false, std::move(reason), std::move(message));
}

void Pass::DeletePods(const std::vector<PodPointer>& pods, ChangeStep& step) {
  for (const auto& pod : pods) {
    if (!pod->metadata.Deleting()) step.deletes.push_back(DeleteOf(*pod));
  }
}

bool Pass::OwnsPodGroup() const {
  return seen_.pod_group && IsControlledBy(seen_.pod_group->metadata, job_.metadata);
}

void Pass::AddStep(ChangeStep step) {
  if (!step.empty()) plan_.steps.push_back(std::move(step));
}

void Pass::Reject(std::string reason, std::string message) {
  const api::Condition* before = api::FindCondition(job_.status.conditions, condition::kAccepted);
  if (before == nullptr || before->message != message || before->reason != reason)
    plan_.Tell(true, reason, message);
  SetCondition(condition::kAccepted, false, reason, message);
  NotRunning(plan_.status.phase.empty() ? phase::kPending : std::string_view(plan_.status.phase),
             std::move(reason), std::move(message));
}

bool Pass::Accept(bool first_look) {
  const auto violations = api::Validate(job_);
  const auto& ref = job_.spec.sample_set_ref;
  if (!violations.empty()) {
    Reject("InvalidSpec", api::Describe(violations));
    return false;
  }
  if (ref && !ref->ns.empty() && ref->ns != job_.metadata.ns) {
    Reject("InvalidSpec", fmt::format("spec.sampleSetRef.namespace is {}, but pods can only use "
                                      "claims of their own namespace {}; "
                                      "create the SampleSet there",
                                      ref->ns, job_.metadata.ns));
    return false;
  }
  if (job_.spec.elastic && settings_.etcd_servers.empty()) {
    Reject("EtcdMissing",
           "an elastic job needs etcd: start the manager with --etcd-server=HOST:PORT "
           "(deploy/elastic/etcd.yaml has one)");
    return false;
  }
  if (first_look && !job_.spec.CleaningWordKnown()) {
    plan_.Tell(
        true, "UnknownCleanPodPolicy",
        fmt::format(
            "cleanPodPolicy \"{}\" is unknown and acts as Never; use Always, Never, OnFailure or "
            "OnCompletion",
            job_.spec.CleaningWord()));
  }
  SetCondition(condition::kAccepted, true, "Valid", "the job can be carried out");
  return true;
}

void Pass::CountPods() {
  for (const Role role : kRoles) {
    auto& status = RoleStatus(plan_.status, role);
    if (RoleSpec(job_.spec, role)) {
      status = CountRole(census_, job_, role);
    } else {
      status.reset();
    }
  }
}

bool Pass::Suspend() {
  if (!job_.spec.suspend) {
    if (api::IsConditionTrue(plan_.status.conditions, condition::kSuspended)) {
      SetCondition(condition::kSuspended, false, "Resumed", "spec.suspend is no longer set");
      plan_.Tell(false, "Resumed", "the job goes on");
    }
    return false;
  }
  if (!api::IsConditionTrue(job_.status.conditions, condition::kSuspended)) {
    // The pods of before must not be taken for those of after.
    if (!seen_.pods.empty() || seen_.config_map) ++plan_.status.gang;
    plan_.status_first = true;
    plan_.Tell(false, "Suspended", "pods are removed until spec.suspend is unset");
  }
  SetCondition(condition::kSuspended, true, "Suspended", "spec.suspend is set");
  NotRunning(phase::kSuspended, "Suspended", "spec.suspend is set");
  plan_.status.start_time.reset();
  RemoveGang(seen_.pods, true);
  return true;
}

bool Pass::MissDeadline() {
  const auto& deadline = job_.spec.active_deadline_seconds;
  if (!deadline || !job_.metadata.creation_timestamp) return false;
  auto since = *job_.metadata.creation_timestamp;
  for (const auto& [type, status] : {std::pair(condition::kDataReady, api::kStatusTrue),
                                     std::pair(condition::kSuspended, api::kStatusFalse)}) {
    const api::Condition* found = api::FindCondition(plan_.status.conditions, type);
    if (found != nullptr && found->status == status && found->last_transition_time) {
      since = std::max(since, *found->last_transition_time);
    }
  }
  if (job_.spec.sample_set_ref &&
      job_.spec.sample_set_ref->WaitForKind() != api::SampleSetRef::WaitFor::kNone &&
      !api::IsConditionTrue(plan_.status.conditions, condition::kDataReady)) {
    return false;
  }
  const auto end = since + seconds(*deadline);
  if (seen_.now < end) {
    plan_.RecheckAfter(end - seen_.now);
    return false;
  }
  Fail("DeadlineExceeded",
       fmt::format("the job was active longer than activeDeadlineSeconds ({})", *deadline));
  return true;
}

}  // namespace paddleop::controllers::paddlejob
