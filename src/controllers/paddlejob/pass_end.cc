#include "controllers/paddlejob/pass.h"

#include <fmt/format.h>

#include "controllers/common/child.h"
#include "controllers/paddlejob/names.h"

namespace paddleop::controllers::paddlejob {
namespace {

namespace phase = api::job_phase;

}  // namespace

Plan Pass::Deleted() {
  if (job_.metadata.HasFinalizer(kFinalizer)) {
    std::string kept;
    for (const auto& finalizer : job_.metadata.finalizers) {
      if (finalizer != kFinalizer)
        kept += fmt::format("{}\"{}\"", kept.empty() ? "" : ",", finalizer);
    }
    plan_.job_patch = fmt::format(R"({{"metadata":{{"resourceVersion":"{}","finalizers":[{}]}}}})",
                                  job_.metadata.resource_version, kept);
  }
  if (job_.spec.elastic) plan_.elastic_np = -1;
  return std::move(plan_);
}

void Pass::CleanUp() {
  using Policy = api::PaddleJobSpec::CleanPolicy;
  const auto policy = job_.spec.Cleaning();
  const auto& status = plan_.status;
  const bool failed = status.phase == phase::kFailed;
  const bool clean = policy == Policy::kAlways || (failed && policy == Policy::kOnFailure) ||
                     (!failed && policy == Policy::kOnCompletion);
  const api::Condition* failure = api::FindCondition(status.conditions, condition::kFailed);
  const bool stop_all = failure != nullptr && failure->reason == "DeadlineExceeded";
  ChangeStep step;
  for (const auto& pod : seen_.pods) {
    if (pod->metadata.Deleting()) continue;
    if (clean || (stop_all && !pod->Finished())) step.deletes.push_back(DeleteOf(*pod));
  }
  if (clean) {
    for (const auto& service : seen_.services) {
      if (!service->metadata.Deleting()) step.deletes.push_back(DeleteOf(*service));
    }
  }
  if (OwnsPodGroup() && !seen_.pod_group->metadata.Deleting())
    step.deletes.push_back(DeleteOf(*seen_.pod_group));
  AddStep(std::move(step));
  if (job_.spec.elastic) plan_.elastic_np = -1;
  ExpireAfterTtl();
}

void Pass::ExpireAfterTtl() {
  const auto& ttl = job_.spec.ttl_seconds_after_finished;
  if (!ttl || !plan_.status.completion_time) return;
  const auto end = *plan_.status.completion_time + seconds(*ttl);
  if (seen_.now >= end) {
    plan_.delete_job = true;
  } else {
    plan_.RecheckAfter(end - seen_.now);
  }
}

void Pass::End(std::string_view end_phase, const char* type, std::string reason,
               const std::string& message) {
  plan_.status_first = true;
  plan_.status.phase = end_phase;
  plan_.status.completion_time = seen_.now;
  SetCondition(condition::kRunning, false, reason, message);
  SetCondition(type, true, std::move(reason), message);
  plan_.recheck.reset();
  CleanUp();
}

void Pass::Fail(std::string reason, const std::string& message) {
  plan_.Tell(true, reason, message);
  End(phase::kFailed, condition::kFailed, std::move(reason), message);
}

bool Pass::Finish() {
  if (HasSucceeded(census_, job_)) {
    Complete();
    return true;
  }
  if (census_.failed.empty()) return false;
  if (job_.spec.elastic) return ReplaceFailed();
  const std::string why = WhyFailed(*census_.failed.front().second);
  const std::int32_t limit = job_.spec.backoff_limit.value_or(0);
  if (job_.status.failures >= limit) {
    Fail("PodFailed",
         limit == 0 ? why : fmt::format("{}; backoffLimit of {} is used up", why, limit));
    return true;
  }
  ++plan_.status.failures;
  plan_.status.last_failure_time = seen_.now;
  BeginGang(phase::kRestarting, "Restarting",
            fmt::format("{}; restart {} of {}", why, plan_.status.failures, limit), true);
  return true;
}

void Pass::Complete() {
  const std::string message =
      fmt::format("all {} succeeded", Replicas(job_.spec, Role::kWorker) > 0 ? "workers" : "pods");
  plan_.Tell(false, "Completed", message);
  End(phase::kCompleted, condition::kCompleted, "Completed", message);
  std::vector<std::string> running;
  for (const auto& [place, pod] : census_.members) {
    if (place.role != Role::kWorker && !pod->Finished()) running.push_back(pod->metadata.name);
  }
  const auto policy = job_.spec.Cleaning();
  using Policy = api::PaddleJobSpec::CleanPolicy;
  if (!running.empty() && (policy == Policy::kNever || policy == Policy::kOnFailure)) {
    plan_.Tell(
        false, "ServersKept",
        fmt::format("{} still run: servers do not end by themselves, and cleanPodPolicy keeps them",
                    JoinNames(running)));
  }
}

bool Pass::ReplaceFailed() {
  const auto& limit = job_.spec.backoff_limit;
  const auto failed = static_cast<std::int32_t>(census_.failed.size());
  if (limit && job_.status.failures + failed > *limit) {
    Fail("PodFailed", fmt::format("{}; backoffLimit of {} is used up",
                                  WhyFailed(*census_.failed.front().second), *limit));
    return true;
  }
  ChangeStep step;
  for (const auto& [place, pod] : census_.failed) {
    step.deletes.push_back(DeleteOf(*pod));
    plan_.Tell(true, "Replaced", WhyFailed(*pod));
  }
  plan_.status.failures += failed;
  plan_.status.last_failure_time = seen_.now;
  AddStep(std::move(step));
  NotRunning(phase::kRestarting, "Restarting", "a failed worker is replaced");
  return true;
}

}  // namespace paddleop::controllers::paddlejob
