#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/batch/rules.h"
#include "controllers/common/child.h"
#include "controllers/samplejob/cron.h"
#include "controllers/samplejob/decide.h"
#include "controllers/samplejob/request.h"

namespace paddleop::controllers::samplejob {
namespace {

using std::chrono::seconds;
namespace phase = api::data_phase;
using JobPointer = std::shared_ptr<const api::SampleJob>;

// Starts that were missed are counted up to here; beyond, only the last one matters.
constexpr int kMaxMissed = 100;

class SchedulePass {
 public:
  explicit SchedulePass(const Observed& seen) : seen_(seen), job_(*seen.job) {
    plan_.status = job_.status;
  }

  Plan Run() {
    if (job_.metadata.Deleting()) {
      // Its jobs are its own and go with it.
      plan_.drop_finalizer = job_.metadata.HasFinalizer(FinalizerOf(job_.metadata.name));
      return std::move(plan_);
    }
    auto& status = plan_.status;
    status.observed_generation = job_.metadata.generation;
    status.phase = phase::kScheduled;
    LookAtChildren();
    TrimHistory();
    std::string problem = api::Describe(api::Validate(job_));
    if (problem.empty()) {
      auto checked = CheckSpec(job_.spec);
      if (!checked) problem = checked.error().message();
    }
    if (!problem.empty()) {
      Say(false, "InvalidSpec", problem);
      status.message = problem;
      return std::move(plan_);
    }
    if (job_.spec.suspend) {
      Say(false, "Suspended", "spec.suspend is set; nothing is started");
      return std::move(plan_);
    }
    Follow();
    return std::move(plan_);
  }

 private:
  void Say(bool fine, std::string reason, const std::string& message) {
    auto& conditions = plan_.status.conditions;
    const api::Condition* before = api::FindCondition(conditions, condition::kScheduled);
    if (!fine && (before == nullptr || before->message != message))
      plan_.Tell(reason == "InvalidSpec", reason, message);
    api::SetCondition(conditions,
                      {.type = condition::kScheduled,
                       .status = std::string(fine ? api::kStatusTrue : api::kStatusFalse),
                       .observed_generation = job_.metadata.generation,
                       .reason = std::move(reason),
                       .message = message},
                      seen_.now);
  }

  void LookAtChildren() {
    auto& status = plan_.status;
    status.active.clear();
    for (const auto& child : seen_.children) {
      const auto& now = child->status;
      if (!now.Finished()) {
        status.active.push_back({std::string(api::SampleJob::kType.ApiVersion()),
                                 std::string(api::SampleJob::kType.kind), child->metadata.ns,
                                 child->metadata.name, child->metadata.uid});
      } else if (now.phase == phase::kSucceeded && now.completion_time &&
                 (!status.last_successful_time ||
                  *status.last_successful_time < *now.completion_time)) {
        status.last_successful_time = now.completion_time;
      }
    }
    std::sort(status.active.begin(), status.active.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }

  void TrimHistory() {
    Trim(phase::kSucceeded, job_.spec.successful_jobs_history_limit);
    Trim(phase::kFailed, job_.spec.failed_jobs_history_limit);
  }

  void Trim(std::string_view ended, std::int32_t limit) {
    std::vector<JobPointer> jobs;
    for (const auto& child : seen_.children) {
      if (child->status.phase == ended && !child->metadata.Deleting()) jobs.push_back(child);
    }
    std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
      return std::pair(a->status.completion_time, a->metadata.name) >
             std::pair(b->status.completion_time, b->metadata.name);
    });
    for (auto i = static_cast<std::size_t>(limit); i < jobs.size(); ++i) Drop(*jobs[i]);
  }

  void Drop(const api::SampleJob& child) {
    plan_.steps.resize(1);
    plan_.steps[0].deletes.push_back(
        {api::SampleJob::kType, child.metadata.Key(), child.metadata.uid, false});
  }

  void Follow() {
    auto cron = Cron::Parse(job_.spec.schedule, job_.spec.time_zone);
    if (!cron) return;
    Say(true, "Following", "the schedule is followed");
    // Starts are due from the last one on, or from the job's creation.
    api::Time since = job_.metadata.creation_timestamp.value_or(seen_.now);
    if (job_.status.last_schedule_time) since = std::max(since, *job_.status.last_schedule_time);
    bool late = false;
    if (job_.spec.starting_deadline_seconds) {
      const auto earliest = seen_.now - seconds(*job_.spec.starting_deadline_seconds);
      if (since < earliest) {
        const auto skipped = cron->Next(since);
        late = skipped && *skipped <= earliest;
        since = earliest;
      }
    }
    std::optional<api::Time> due;
    int missed = 0;
    auto next = cron->Next(since);
    while (next && *next <= seen_.now && missed < kMaxMissed) {
      due = next;
      ++missed;
      next = cron->Next(*next);
    }
    if (missed == kMaxMissed) {
      // Very many: find the last one from the other end.
      auto from = seen_.now - std::chrono::hours(1);
      for (auto step = std::chrono::hours(1); !cron->Next(from) || *cron->Next(from) > seen_.now;
           step *= 2) {
        from = seen_.now - step;
      }
      for (next = cron->Next(from); next && *next <= seen_.now; next = cron->Next(*next))
        due = next;
      plan_.Tell(true, "TooManyMissedTimes",
                 fmt::format("more than {} starts were missed; only the last one is made up for",
                             kMaxMissed));
    }
    if (next) plan_.RecheckAfter(*next - seen_.now);
    if (due) {
      Start(*due);
    } else if (late) {
      plan_.Tell(true, "MissSchedule",
                 "a start was missed by more than spec.startingDeadlineSeconds");
      // Said once: what was skipped is over.
      plan_.status.last_schedule_time = since;
    }
  }

  void Start(api::Time due) {
    auto& status = plan_.status;
    const bool busy = !status.active.empty();
    if (busy && job_.spec.concurrency_policy == "Forbid") {
      // It is made up for when the other has ended, if the deadline allows.
      Say(true, "Waiting", "the start waits for the job before it (concurrencyPolicy Forbid)");
      return;
    }
    if (busy && job_.spec.concurrency_policy == "Replace") {
      for (const auto& child : seen_.children) {
        if (!child->status.Finished() && !child->metadata.Deleting()) Drop(*child);
      }
      status.active.clear();
    }
    const auto minutes =
        std::chrono::duration_cast<std::chrono::minutes>(due.time_since_epoch()).count();
    const std::string name = fmt::format("{}-{}", job_.metadata.name, minutes);
    status.last_schedule_time = due;
    ChangeStep step;
    step.creates.push_back({api::SampleJob::kType, {job_.metadata.ns, name}, Child(name, due)});
    plan_.steps.push_back(std::move(step));
    plan_.Tell(false, "SuccessfulCreate", fmt::format("started {}", name));
  }

  std::string Child(const std::string& name, api::Time due) const {
    api::SampleJobSpec spec = job_.spec;
    spec.schedule.clear();
    spec.time_zone.clear();
    spec.suspend = false;
    spec.concurrency_policy = api::SampleJobSpec().concurrency_policy;
    spec.starting_deadline_seconds.reset();
    spec.successful_jobs_history_limit = api::SampleJobSpec().successful_jobs_history_limit;
    spec.failed_jobs_history_limit = api::SampleJobSpec().failed_jobs_history_limit;
    api::Json metadata = ChildMetadata(api::SampleJob::kType, job_.metadata, name,
                                       {{kScheduleUidLabel, job_.metadata.uid}});
    metadata["annotations"][kScheduledTimeAnnotation] = api::FormatTime(due);
    return api::DumpJson({{"apiVersion", api::SampleJob::kType.ApiVersion()},
                          {"kind", api::SampleJob::kType.kind},
                          {"metadata", metadata},
                          {"spec", api::ToJson(spec)}});
  }

  const Observed& seen_;
  const api::SampleJob& job_;
  Plan plan_;
};

}  // namespace

Plan DecideSchedule(const Observed& seen) { return SchedulePass(seen).Run(); }

}  // namespace paddleop::controllers::samplejob
