#include "controllers/samplejob/reconciler.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "controllers/common/own_object.h"
#include "controllers/common/sources.h"
#include "controllers/samplejob/decide.h"
#include "controllers/samplejob/request.h"
#include "kube/client/apply.h"
#include "runtime/protocol/paths.h"

namespace paddleop::controllers::samplejob {
namespace {

constexpr std::chrono::milliseconds kAskTimeout(3'000);

bool NeedsRuntime(const api::SampleJob& job) {
  return job.spec.schedule.empty() && !job.status.Finished();
}

}  // namespace

DataJobReconciler::DataJobReconciler(Parts parts) : parts_(parts) {}

Result<kube::Requeue> DataJobReconciler::Reconcile(const Context& ctx, const kube::ObjectKey& key) {
  Client zero;
  auto seen = Observe(ctx, key, zero);
  if (!seen && IsNotFound(seen.error())) return kube::Requeue{};
  if (!seen) return std::unexpected(std::move(seen).error());
  Plan plan = Decide(*seen);
  RETURN_IF_ERROR(CarryOut(ctx, *seen, plan, zero));
  kube::Requeue requeue;
  if (plan.recheck) requeue.after = *plan.recheck;
  return requeue;
}

Result<Observed> DataJobReconciler::Observe(const Context& ctx, const kube::ObjectKey& key,
                                            Client& zero) {
  Observed seen;
  seen.job = parts_.caches.sample_jobs().Get(key);
  if (!seen.job) return Fail(Code::kNotFound, "SampleJob {}", key.ToString());
  seen.now = std::chrono::floor<std::chrono::seconds>(parts_.clock.WallNow());
  const auto& job = *seen.job;
  if (!job.spec.schedule.empty()) {
    seen.children = parts_.caches.sample_jobs().ByIndex(Caches::kByOwner, job.metadata.uid);
    return seen;
  }
  seen.set = parts_.caches.sample_sets().Get({key.ns, job.spec.sample_set});
  if (!seen.set || !NeedsRuntime(job)) return seen;
  RETURN_IF_ERROR(LookAtRuntime(ctx, seen, zero));
  // Keys are needed when the job is posted, and once more if the runtime has lost them.
  const bool lost =
      seen.report &&
      (!seen.report->known || seen.report->result.state == runtime::JobState::kNeedsCredentials);
  if (job.status.job_name.empty() || lost) RETURN_IF_ERROR(ReadSecrets(ctx, seen));
  return seen;
}

Result<void> DataJobReconciler::ReadSecrets(const Context& ctx, Observed& seen) {
  const auto& job = *seen.job;
  if (job.spec.type != "sync" || job.metadata.Deleting()) return {};
  const std::string& ns = job.metadata.ns;
  std::optional<SecretView> volume;
  for (const auto& source : SourcesOf(job.spec, seen.set->spec)) {
    SecretView view;
    if (source.secret_ref) {
      ASSIGN_OR_RETURN(view, ReadSecret(ctx, parts_.client, source.secret_ref, ns));
    } else {
      if (!volume) {
        ASSIGN_OR_RETURN(volume, ReadSecret(ctx, parts_.client, seen.set->spec.secret_ref, ns));
      }
      if (SharesKeys(source.uri, *volume)) view = *volume;
    }
    seen.secrets.push_back(std::move(view));
  }
  return {};
}

Result<void> DataJobReconciler::LookAtRuntime(const Context& ctx, Observed& seen, Client& zero) {
  const auto& set = seen.set->metadata;
  const auto pod = parts_.caches.runtime_pods().Get({set.ns, api::RuntimePodName(set.name, 0)});
  if (!pod || pod->metadata.Label(kSetUidLabel) != set.uid) return {};
  seen.runtime_exists = true;
  if (pod->metadata.Deleting() || pod->pod_ip.empty() || pod->phase != api::PodPhase::kRunning)
    return {};
  seen.runtime_ready = pod->ready;
  auto raw = parts_.client.Get(ctx, api::SecretObject::kType, {set.ns, RuntimeAuthName(set.name)});
  if (!raw && IsNotFound(raw.error())) {
    seen.runtime_ready = false;
    return {};
  }
  if (!raw) return std::unexpected(std::move(raw).error());
  ASSIGN_OR_RETURN(const auto auth, api::ParseAs<api::SecretObject>(raw->json));
  const RuntimeAccess access = RuntimeAccess::From(auth);
  if (!access.usable()) {
    seen.runtime_ready = false;
    return {};
  }
  ASSIGN_OR_RETURN(zero, parts_.runtimes.Find(
                             pod->pod_ip, runtime::RuntimeTlsName(set.name, set.ns, 0), access));
  const std::string& name = seen.job->status.job_name;
  if (name.empty()) return {};
  ASSIGN_OR_RETURN(const auto kind, runtime::ParseKind(seen.job->spec.type));
  auto result = zero->GetResult(ctx.WithTimeout(kAskTimeout), kind, name);
  if (result) {
    seen.report = JobSeen{.known = true, .result = *std::move(result)};
  } else if (IsNotFound(result.error())) {
    seen.report = JobSeen{};
  }
  return {};
}

Result<void> DataJobReconciler::CarryOut(const Context& ctx, const Observed& seen, Plan& plan,
                                         const Client& zero) {
  const auto& job = *seen.job;
  const kube::ObjectKey key = job.metadata.Key();
  if (!plan.job_patch.empty()) {
    ASSIGN_OR_RETURN(
        const auto patched,
        parts_.client.Patch(ctx, api::SampleJob::kType, key,
                            kube::MergePatch(plan.job_patch, "", {.uid = job.metadata.uid})));
    parts_.caches.sample_jobs().Learn(patched);
    return {};
  }
  if (plan.drop_finalizer)
    return DropFinalizer(ctx, parts_.client, api::SampleJob::kType, job.metadata,
                         FinalizerOf(job.metadata.name));
  if (plan.status_first) RETURN_IF_ERROR(WriteStatus(ctx, job, plan.status, true));
  if (plan.cancel_all && zero) RETURN_IF_ERROR(zero->CancelAll(ctx));
  if (!plan.cancel.empty() && zero) {
    auto cancelled = zero->Cancel(ctx, plan.cancel);
    if (!cancelled && !IsNotFound(cancelled.error()))
      parts_.log.Warn(ctx, "job not cancelled", {{"error", cancelled.error().message()}});
  }
  RETURN_IF_ERROR(parts_.applier.Apply(
      ctx, OwnerByLabel("this schedule", std::string(kScheduleUidLabel), job.metadata.uid),
      plan.steps));
  const bool posted = plan.post.has_value();
  if (posted) Post(ctx, seen, plan, zero);
  if (!plan.status_first || posted) {
    const auto current = plan.status_first ? parts_.caches.sample_jobs().Get(key) : seen.job;
    if (current) RETURN_IF_ERROR(WriteStatus(ctx, *current, plan.status, false));
  }
  for (const ChangeNote& note : plan.notes) Tell(job, note);
  if (!plan.delete_job) return {};
  kube::DeleteOptions options;
  options.preconditions.uid = job.metadata.uid;
  auto deleted = parts_.client.Delete(ctx, api::SampleJob::kType, key, options);
  if (!deleted && !IsNotFound(deleted.error()) && !IsConflict(deleted.error())) return deleted;
  return {};
}

void DataJobReconciler::Post(const Context& ctx, const Observed& seen, Plan& plan,
                             const Client& zero) {
  auto posted = zero ? zero->Post(ctx, *plan.post)
                     : Result<runtime::JobResult>(Fail(Code::kUnavailable, "no runtime"));
  if (posted) return;
  const Code code = posted.error().code();
  const std::string message = posted.error().message();
  if (code != Code::kInvalid && code != Code::kConflict && code != Code::kNotSupported) {
    parts_.log.Warn(ctx, "job not posted", {{"job", plan.post->name}, {"error", message}});
    return;  // the next pass finds that the runtime does not know it
  }
  const std::string reason = fmt::format("ErrorCreate{}Job", TypeWord(seen.job->spec));
  plan.status.phase = api::data_phase::kFailed;
  plan.status.message = message;
  plan.status.completion_time = seen.now;
  api::SetCondition(plan.status.conditions,
                    {.type = condition::kFailed,
                     .status = std::string(api::kStatusTrue),
                     .observed_generation = seen.job->metadata.generation,
                     .reason = reason,
                     .message = message},
                    seen.now);
  plan.notes.clear();
  plan.Tell(true, reason, message);
}

Result<void> DataJobReconciler::WriteStatus(const Context& ctx, const api::SampleJob& job,
                                            const api::SampleJobStatus& status,
                                            bool unchanged_only) {
  kube::Preconditions preconditions{.uid = job.metadata.uid, .resource_version = {}};
  if (unchanged_only) preconditions.resource_version = job.metadata.resource_version;
  auto done = kube::PatchStatus(ctx, parts_.client, api::SampleJob::kType, job.metadata.Key(),
                                api::DumpJson(api::ToJson(job.status)),
                                api::DumpJson(api::ToJson(status)), preconditions);
  if (!done && IsNotFound(done.error())) return {};
  if (!done) return std::unexpected(std::move(done).error());
  if (!*done) return {};
  parts_.caches.sample_jobs().Learn(**done);
  return {};
}

void DataJobReconciler::Tell(const api::SampleJob& job, const ChangeNote& note) {
  RecordNote(parts_.events, api::SampleJob::kType, job.metadata, note);
}

}  // namespace paddleop::controllers::samplejob
