// What a pass over a SampleJob sees, and what it wants done. Plain values: decide.h turns one into
// the other.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/batch/sample_job.h"
#include "api/batch/sample_set.h"
#include "controllers/common/changes.h"
#include "controllers/common/runtimes.h"
#include "controllers/common/secrets.h"
#include "runtime/protocol/job.h"

namespace paddleop::controllers::samplejob {

struct Observed {
  std::shared_ptr<const api::SampleJob> job;
  std::shared_ptr<const api::SampleSet> set;  // null: there is none of that name
  // Of a sync: for its sources, in the order of SourcesOf().
  std::vector<SecretView> secrets;
  bool runtime_ready = false;   // runtime 0 serves
  bool runtime_exists = false;  // or at least its pod is there
  // What runtime 0 says of the job. Absent: it was not asked, or did not answer.
  std::optional<JobSeen> report;
  std::vector<std::shared_ptr<const api::SampleJob>> children;  // of a schedule
  api::Time now{};
};

struct Plan {
  api::SampleJobStatus status;
  // The status names what is posted or created: store it before.
  bool status_first = false;
  std::string job_patch;    // merge patch of the job's own metadata; before everything else
  bool cancel_all = false;  // spec.terminate: what the runtimes are doing
  std::optional<runtime::JobRequest> post;  // to runtime 0, with credentials
  std::string cancel;                       // job to cancel on runtime 0
  std::vector<ChangeStep> steps;
  std::vector<ChangeNote> notes;
  bool drop_finalizer = false;
  bool delete_job = false;
  std::optional<std::chrono::seconds> recheck;

  void RecheckAfter(std::chrono::seconds delay) {
    if (delay < std::chrono::seconds(1)) delay = std::chrono::seconds(1);
    if (!recheck || delay < *recheck) recheck = delay;
  }
  void Tell(bool warning, std::string reason, std::string message) {
    notes.push_back({warning, std::move(reason), std::move(message)});
  }
};

// Condition types of a SampleJob.
namespace condition {
inline constexpr char kAccepted[] = "Accepted";      // the spec makes sense and the set exists
inline constexpr char kTerminated[] = "Terminated";  // what ran before was told to stop
inline constexpr char kRunning[] = "Running";
inline constexpr char kComplete[] = "Complete";
inline constexpr char kFailed[] = "Failed";
inline constexpr char kScheduled[] = "Scheduled";  // of a schedule: it can be followed
}  // namespace condition

std::string FinalizerOf(const std::string& job);  // paddlepaddle.org/samplejob-<job>

// On jobs that a schedule made: its UID, and the time they were due.
inline constexpr char kScheduleUidLabel[] = "paddlepaddle.org/schedule-uid";
inline constexpr char kScheduledTimeAnnotation[] = "paddlepaddle.org/scheduled-time";

}  // namespace paddleop::controllers::samplejob
