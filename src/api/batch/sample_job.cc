#include "api/batch/sample_job.h"

#include "api/batch/internal/object.h"
#include "api/batch/internal/set_fields.h"

namespace paddleop::api {

template <class Io>
void Describe(Io& io, SyncOptions& o) {
  io("source", o.source);
  io("destination", o.destination);
  io("start", o.start);
  io("end", o.end);
  io("threads", o.threads);
  io("http-port", o.http_port);
  io("update", o.update);
  io("force-update", o.force_update);
  io("perms", o.perms);
  io("dirs", o.dirs);
  io("dry", o.dry);
  io("delete-src", o.delete_src);
  io("delete-dst", o.delete_dst);
  io("exclude", o.exclude);
  io("include", o.include);
  io("manager", o.manager);
  io("worker", o.worker);
  io("bwlimit", o.bwlimit);
  io("no-https", o.no_https);
}

template <class Io>
void Describe(Io& io, PathOptions& o) {
  io("paths", o.paths);
}

template <class Io>
void Describe(Io& io, SampleJobSpec& s) {
  io("type", s.type);
  io.Nested("sampleSetRef", "name", s.sample_set);
  io("secretRef", s.secret_ref);
  io("terminate", s.terminate);
  io("syncOptions", s.sync_options);
  io("warmupOptions", s.warmup_options);
  io("rmrOptions", s.rmr_options);
  io("clearOptions", s.clear_options);
  io("schedule", s.schedule);
  io("timeZone", s.time_zone);
  io("suspend", s.suspend);
  io.Default("concurrencyPolicy", s.concurrency_policy, "Allow");
  io("startingDeadlineSeconds", s.starting_deadline_seconds);
  io.Default("successfulJobsHistoryLimit", s.successful_jobs_history_limit, 3);
  io.Default("failedJobsHistoryLimit", s.failed_jobs_history_limit, 1);
  io("ttlSecondsAfterFinished", s.ttl_seconds_after_finished);
  io("backoffLimit", s.backoff_limit);
}

template <class Io>
void Describe(Io& io, ProgressCount& c) {
  io("total", c.total);
  io("done", c.done);
  io("skipped", c.skipped);
  io("failed", c.failed);
}

template <class Io>
void Describe(Io& io, SampleJobProgress& p) {
  io("files", p.files);
  io("bytes", p.bytes);
  io("rate", p.rate);
  io("eta", p.eta);
  io("percent", p.percent);
}

template <class Io>
void Describe(Io& io, SampleJobStatus& s) {
  io("phase", s.phase);
  io("jobName", s.job_name);
  io("attempt", s.attempt);
  io("progress", s.progress);
  io("startTime", s.start_time);
  io("completionTime", s.completion_time);
  io("message", s.message);
  io("active", s.active);
  io("lastScheduleTime", s.last_schedule_time);
  io("lastSuccessfulTime", s.last_successful_time);
  io("observedGeneration", s.observed_generation);
  io("conditions", s.conditions);
}

Result<SampleJob> SampleJob::FromJson(const Json& json) {
  return internal::ReadObject<SampleJob>(json);
}
Json ToJson(const SampleJob& job) { return internal::WriteObject(job); }
Json ToJson(const SampleJobSpec& spec) { return internal::Write(spec); }
Json ToJson(const SampleJobStatus& status) { return internal::Write(status); }

Json ToJson(const SyncOptions& options) { return internal::Write(options); }
Json ToJson(const WarmupOptions& options) { return internal::Write(options); }
Json ToJson(const PathOptions& options) { return internal::Write(options); }
Result<SyncOptions> SyncOptionsFromJson(const Json& json) {
  return internal::Read<SyncOptions>(json, "syncOptions");
}
Result<WarmupOptions> WarmupOptionsFromJson(const Json& json) {
  return internal::Read<WarmupOptions>(json, "warmupOptions");
}
Result<PathOptions> PathOptionsFromJson(const Json& json) {
  return internal::Read<PathOptions>(json, "options");
}

template Result<SampleJob> ParseAs<SampleJob>(std::string_view);

}  // namespace paddleop::api
