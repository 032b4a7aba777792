#include "api/batch/paddle_job.h"

#include "api/batch/internal/object.h"
#include "api/internal/meta_fields.h"

namespace paddleop::api {

template <class Io>
void Describe(Io& io, SchedulingPolicy& p) {
  io("minAvailable", p.min_available);
  io("queue", p.queue);
  io("priorityClass", p.priority_class);
  io("minResources", p.min_resources);
}

template <class Io>
void Describe(Io& io, SampleSetRef& r) {
  io("name", r.name);
  io("namespace", r.ns);
  io("mountPath", r.mount_path);
  io.Default("readOnly", r.read_only, true);
  io.Default("affinity", r.affinity, "Required");
  io.Default("affinityTimeoutSeconds", r.affinity_timeout_seconds, 300);
  io.Default("waitFor", r.wait_for, "Ready");
}

template <class Io>
void Describe(Io& io, JobRole& r) {
  io.Required("replicas", r.replicas);
  io("requests", r.requests);
  io("limits", r.limits);
  io("template", r.pod_template);
}

template <class Io>
void Describe(Io& io, PaddleJobSpec& s) {
  io("cleanPodPolicy", s.clean_pod_policy);
  io("cleanPolicy", s.clean_policy);
  io("intranet", s.intranet);
  io("withGloo", s.with_gloo);
  io("elastic", s.elastic);
  io("schedulingPolicy", s.scheduling_policy);
  io("sampleSetRef", s.sample_set_ref);
  io("ps", s.ps);
  io("worker", s.worker);
  io("heter", s.heter);
  io("suspend", s.suspend);
  io("backoffLimit", s.backoff_limit);
  io("activeDeadlineSeconds", s.active_deadline_seconds);
  io("ttlSecondsAfterFinished", s.ttl_seconds_after_finished);
}

template <class Io>
void Describe(Io& io, JobRoleStatus& s) {
  io("pending", s.pending);
  io("starting", s.starting);
  io("running", s.running);
  io("failed", s.failed);
  io("succeeded", s.succeeded);
  io("unknown", s.unknown);
  io("refs", s.refs);
}

template <class Io>
void Describe(Io& io, PaddleJobStatus& s) {
  io("phase", s.phase);
  io("mode", s.mode);
  io("ps", s.ps);
  io("worker", s.worker);
  io("heter", s.heter);
  io("elastic", s.elastic);
  io("startTime", s.start_time);
  io("completionTime", s.completion_time);
  io("observedGeneration", s.observed_generation);
  io("conditions", s.conditions);
  io("gang", s.gang);
  io("failures", s.failures);
  io("lastFailureTime", s.last_failure_time);
  io("relaxedWorkers", s.relaxed_workers);
}

SampleSetRef::Affinity SampleSetRef::AffinityKind() const {
  if (affinity == "Preferred") return Affinity::kPreferred;
  if (affinity == "None") return Affinity::kNone;
  return Affinity::kRequired;
}

SampleSetRef::WaitFor SampleSetRef::WaitForKind() const {
  if (wait_for == "Cached") return WaitFor::kCached;
  if (wait_for == "None") return WaitFor::kNone;
  return WaitFor::kReady;
}

const std::string& PaddleJobSpec::CleaningWord() const {
  return clean_pod_policy.empty() ? clean_policy : clean_pod_policy;
}

PaddleJobSpec::CleanPolicy PaddleJobSpec::Cleaning() const {
  const std::string& word = CleaningWord();
  if (word.empty() || word == "OnCompletion") return CleanPolicy::kOnCompletion;
  if (word == "Always") return CleanPolicy::kAlways;
  if (word == "OnFailure") return CleanPolicy::kOnFailure;
  return CleanPolicy::kNever;
}

bool PaddleJobSpec::CleaningWordKnown() const {
  return Cleaning() != CleanPolicy::kNever || CleaningWord() == "Never";
}

std::string_view PaddleJobSpec::Mode() const {
  if (ps) return job_mode::kPs;
  if (worker && worker->replicas > 1) return job_mode::kCollective;
  return job_mode::kSingle;
}

Result<PaddleJob> PaddleJob::FromJson(const Json& json) {
  return internal::ReadObject<PaddleJob>(json);
}
Json ToJson(const PaddleJob& job) { return internal::WriteObject(job); }
Json ToJson(const PaddleJobStatus& status) { return internal::Write(status); }

template Result<PaddleJob> ParseAs<PaddleJob>(std::string_view);

}  // namespace paddleop::api
