#include "controllers/samplejob/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/batch/rules.h"
#include "controllers/samplejob/request.h"

namespace paddleop::controllers::samplejob {
namespace {

using std::chrono::seconds;
namespace phase = api::data_phase;

// Progress is refreshed this often while a job runs.
constexpr seconds kFollow(2);
// For what nobody tells us: a Secret that is created, a runtime that answers again.
constexpr seconds kAwait(3);
constexpr seconds kFirstRetry(5);
constexpr seconds kLongestRetry(300);
// A runtime that does not answer keeps a deleted job this long.
constexpr seconds kStopPatience(60);

// One pass over one job.
class Pass {
 public:
  explicit Pass(const Observed& seen) : seen_(seen), job_(*seen.job) { plan_.status = job_.status; }

  Plan Run() {
    if (job_.metadata.Deleting()) return Stop();
    if (job_.status.Finished()) return AfterTheEnd();
    if (!HasFinalizer()) return std::move(plan_);
    plan_.status.observed_generation = job_.metadata.generation;
    if (plan_.status.phase.empty()) plan_.status.phase = phase::kPending;
    if (!job_.status.job_name.empty()) return FollowUp();
    if (Accepted() && SetUsable() && SecretsReady() && WaitedEnough()) Begin();
    return std::move(plan_);
  }

 private:
  void Say(const char* type, bool fine, std::string reason, const std::string& message,
           bool event_if_new = false) {
    const api::Condition* before = api::FindCondition(plan_.status.conditions, type);
    const bool is_new = before == nullptr || before->reason != reason || before->message != message;
    if (event_if_new && is_new) plan_.Tell(!fine, reason, message);
    api::SetCondition(plan_.status.conditions,
                      {.type = type,
                       .status = std::string(fine ? api::kStatusTrue : api::kStatusFalse),
                       .observed_generation = job_.metadata.generation,
                       .reason = std::move(reason),
                       .message = message},
                      seen_.now);
  }

  // The job cannot begin, and says why.
  bool Wait(const char* type, std::string reason, const std::string& message, bool warn) {
    Say(type, false, std::move(reason), message, warn);
    plan_.status.message = message;
    return false;
  }

  bool HasFinalizer() {
    const auto& meta = job_.metadata;
    const std::string finalizer = FinalizerOf(meta.name);
    if (meta.HasFinalizer(finalizer)) return true;
    auto finalizers = meta.finalizers;
    finalizers.push_back(finalizer);
    plan_.job_patch = api::DumpJson(
        {{"metadata", {{"resourceVersion", meta.resource_version}, {"finalizers", finalizers}}}});
    return false;
  }

  bool Accepted() {
    std::string problem = api::Describe(api::Validate(job_));
    if (problem.empty()) {
      auto checked = CheckSpec(job_.spec);
      if (!checked) problem = checked.error().message();
    }
    if (!problem.empty()) return Wait(condition::kAccepted, "InvalidSpec", problem, true);
    if (!seen_.set) {
      return Wait(condition::kAccepted, "ErrorSampleSetNotExist",
                  fmt::format("spec.sampleSetRef.name: there is no SampleSet {} in namespace {}; "
                              "create it, or correct the name",
                              job_.spec.sample_set, job_.metadata.ns),
                  true);
    }
    auto request = MakeRequest(job_.spec, *seen_.set, seen_.secrets);
    if (!request) return Wait(condition::kAccepted, "InvalidSpec", request.error().message(), true);
    request_ = *std::move(request);
    Say(condition::kAccepted, true, "Accepted", "the spec is complete");
    return true;
  }

  bool SetUsable() {
    const auto& set = *seen_.set;
    if (set.metadata.Deleting())
      return Wait(condition::kRunning, "SetDeleted", "the SampleSet is being deleted", true);
    const std::string& at = set.status.phase;
    const bool usable = at == api::set_phase::kPartialReady || at == api::set_phase::kReady ||
                        at == api::set_phase::kSyncFailed;
    if (!usable) {
      return Wait(condition::kRunning, "WaitingForSampleSet",
                  fmt::format("SampleSet {} is {}; the job begins when it is Ready",
                              set.metadata.name, at.empty() ? "not set up" : at),
                  false);
    }
    // Jobs that all partitions take part in would leave out those that are away.
    const bool all = job_.spec.type == "warmup" || job_.spec.type == "clear";
    if (all && at != api::set_phase::kReady && !AllServe(set)) {
      return Wait(condition::kRunning, "WaitingForSampleSet",
                  fmt::format("not all partitions of SampleSet {} serve", set.metadata.name),
                  false);
    }
    if (!seen_.runtime_ready) {
      plan_.RecheckAfter(kAwait);
      return Wait(condition::kRunning, "WaitingForRuntime",
                  fmt::format("{} is not ready", api::RuntimePodName(set.metadata.name, 0)), false);
    }
    return true;
  }

  static bool AllServe(const api::SampleSet& set) {
    const auto& runtime = set.status.runtime_status;
    return runtime && runtime->ready_replicas >= set.spec.partitions;
  }

  bool SecretsReady() {
    for (const auto& view : seen_.secrets) {
      if (view.found() || view.state == SecretView::State::kNone) continue;
      plan_.RecheckAfter(kAwait);
      return Wait(condition::kAccepted, "ErrorSecretNotExist", view.Problem("spec.secretRef"),
                  true);
    }
    return true;
  }

  // After a failed attempt the next one waits, longer each time.
  bool WaitedEnough() {
    if (job_.status.attempt == 0) return true;
    const api::Condition* retry = api::FindCondition(plan_.status.conditions, condition::kRunning);
    if (retry == nullptr || !retry->last_transition_time) return true;
    const int doublings = std::min(job_.status.attempt - 1, 10);
    const seconds delay = std::min(kFirstRetry * (1 << doublings), kLongestRetry);
    const auto until = *retry->last_transition_time + delay;
    if (seen_.now >= until) return true;
    plan_.RecheckAfter(until - seen_.now);
    return false;
  }

  void Begin() {
    auto& status = plan_.status;
    if (job_.spec.terminate && !api::IsConditionTrue(status.conditions, condition::kTerminated)) {
      // Sent before our own job has a name, so that it cannot be hit; told before it is posted, so
      // that it is not sent again.
      plan_.cancel_all = true;
      Say(condition::kTerminated, true, "Sent", "what the runtimes were doing was told to stop");
      plan_.Tell(false, "CreateTerminateSuccessfully",
                 "what the runtimes were doing was told to stop");
      return;
    }
    status.job_name = JobName(job_, request_, status.attempt);
    status.message.clear();
    status.progress.reset();
    plan_.status_first = true;
    request_.name = status.job_name;
    plan_.post = request_;
    Say(condition::kRunning, false, "Posted", "the job was handed to the runtimes");
    plan_.Tell(false, fmt::format("Create{}JobSuccessfully", TypeWord(job_.spec)),
               fmt::format("job {}", status.job_name));
    plan_.RecheckAfter(kFollow);
  }

  Plan FollowUp() {
    if (!seen_.set || seen_.set->metadata.Deleting()) {
      Fail("SetDeleted", "the SampleSet was deleted while the job ran");
      return std::move(plan_);
    }
    plan_.RecheckAfter(kFollow);
    if (!seen_.report) {
      plan_.status.message = fmt::format("{} does not answer; the job goes on when it is back",
                                         api::RuntimePodName(job_.spec.sample_set, 0));
      return std::move(plan_);
    }
    if (!seen_.report->known) {
      if (job_.status.phase == phase::kRunning) {
        plan_.Tell(true, "JobLost",
                   "the runtime has lost the job with its journal; it is posted again");
        plan_.status.phase = phase::kPending;
      }
      PostAgain();
      return std::move(plan_);
    }
    const auto& result = seen_.report->result;
    if (result.state == runtime::JobState::kNeedsCredentials) {
      PostAgain();
      return std::move(plan_);
    }
    Report(result);
    return std::move(plan_);
  }

  // The same name: what runs already is not begun twice.
  void PostAgain() {
    if (!seen_.runtime_ready || !SecretsReady()) return;
    auto request = MakeRequest(job_.spec, *seen_.set, seen_.secrets);
    if (!request) return Fail("InvalidSpec", request.error().message());
    request->name = job_.status.job_name;
    plan_.post = *std::move(request);
  }

  void Report(const runtime::JobResult& result) {
    auto& status = plan_.status;
    status.progress = runtime::ForStatus(result.progress);
    if (!status.start_time) status.start_time = result.start_time.value_or(seen_.now);
    switch (result.state) {
      case runtime::JobState::kQueued:
        status.phase = phase::kPending;
        status.message = "waits for other jobs of the set";
        return;
      case runtime::JobState::kRunning:
        status.phase = phase::kRunning;
        status.message = result.message;
        Say(condition::kRunning, true, "Running", "the runtimes are at work");
        return;
      case runtime::JobState::kSucceeded:
        return Succeed(result);
      case runtime::JobState::kCancelled:
        return Fail("Cancelled", result.message.empty() ? "the job was cancelled" : result.message);
      default:
        return Failed(result);
    }
  }

  void Succeed(const runtime::JobResult& result) {
    auto& status = plan_.status;
    status.phase = phase::kSucceeded;
    status.completion_time = result.end_time.value_or(seen_.now);
    status.message = result.message;
    if (status.progress) {
      status.progress->eta.clear();
      status.progress->percent = "100%";
    }
    const std::string message = result.message.empty() ? "done" : result.message;
    Say(condition::kRunning, false, "Ended", "the job has ended");
    Say(condition::kComplete, true, "Succeeded", message);
    plan_.Tell(false, fmt::format("Do{}JobSuccessfully", TypeWord(job_.spec)), message);
    plan_.recheck.reset();
    Expire();
  }

  void Failed(const runtime::JobResult& result) {
    auto& status = plan_.status;
    if (status.attempt >= job_.spec.backoff_limit)
      return Fail(fmt::format("ErrorDo{}Job", TypeWord(job_.spec)), result.message);
    ++status.attempt;
    status.job_name.clear();
    status.phase = phase::kPending;
    status.message = fmt::format("attempt {} of {} failed: {}", status.attempt,
                                 job_.spec.backoff_limit + 1, result.message);
    // The waiting time counts from here, whatever the condition was before.
    api::RemoveCondition(status.conditions, condition::kRunning);
    Say(condition::kRunning, false, "Retrying", status.message);
    plan_.Tell(true, "Retrying", status.message);
    plan_.RecheckAfter(kFirstRetry);
  }

  void Fail(std::string reason, const std::string& message) {
    auto& status = plan_.status;
    status.phase = phase::kFailed;
    status.completion_time = seen_.now;
    status.message = message;
    if (status.progress) status.progress->eta.clear();
    Say(condition::kRunning, false, "Ended", "the job has ended");
    plan_.Tell(true, reason, message);
    Say(condition::kFailed, true, std::move(reason), message);
    plan_.recheck.reset();
    Expire();
  }

  Plan AfterTheEnd() {
    if (job_.status.observed_generation != job_.metadata.generation) {
      plan_.status.observed_generation = job_.metadata.generation;
      if (job_.status.phase == phase::kFailed) return BeginAnew();
      plan_.Tell(false, "AlreadySucceeded",
                 "a job that has succeeded is not run again; create another one");
    }
    Expire();
    return std::move(plan_);
  }

  // A failed job that was corrected is tried as if it were new.
  Plan BeginAnew() {
    api::SampleJobStatus fresh;
    fresh.phase = phase::kPending;
    fresh.observed_generation = job_.metadata.generation;
    plan_.status = std::move(fresh);
    plan_.Tell(false, "Changed", "the spec was changed; the job is tried again");
    plan_.RecheckAfter(seconds(1));
    return std::move(plan_);
  }

  void Expire() {
    const auto& ttl = job_.spec.ttl_seconds_after_finished;
    if (!ttl || !plan_.status.completion_time) return;
    const auto end = *plan_.status.completion_time + seconds(*ttl);
    if (seen_.now < end || !job_.status.Finished()) {
      plan_.RecheckAfter(end - seen_.now);
      return;
    }
    plan_.delete_job = true;
  }

  // A deleted job is stopped before it goes.
  Plan Stop() {
    if (!job_.metadata.HasFinalizer(FinalizerOf(job_.metadata.name))) return std::move(plan_);
    const bool posted = !job_.status.job_name.empty() && !job_.status.Finished();
    const bool ended =
        seen_.report && (!seen_.report->known || runtime::Finished(seen_.report->result.state));
    const bool patience = seen_.now < *job_.metadata.deletion_timestamp + kStopPatience;
    if (!posted || ended || !seen_.set || !seen_.runtime_exists || !patience) {
      plan_.drop_finalizer = true;
      return std::move(plan_);
    }
    if (seen_.report) plan_.cancel = job_.status.job_name;
    plan_.status.message = "being stopped";
    plan_.RecheckAfter(seconds(1));
    return std::move(plan_);
  }

  const Observed& seen_;
  const api::SampleJob& job_;
  runtime::JobRequest request_;
  Plan plan_;
};

}  // namespace

std::string FinalizerOf(const std::string& job) { return "paddlepaddle.org/samplejob-" + job; }

Plan Decide(const Observed& seen) {
  if (!seen.job->spec.schedule.empty()) return DecideSchedule(seen);
  return Pass(seen).Run();
}

}  // namespace paddleop::controllers::samplejob
