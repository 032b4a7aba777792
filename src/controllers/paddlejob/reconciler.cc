#include "controllers/paddlejob/reconciler.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "controllers/common/child.h"
#include "controllers/common/own_object.h"
#include "controllers/paddlejob/addresses.h"
#include "controllers/paddlejob/decide.h"
#include "controllers/paddlejob/names.h"
#include "kube/client/apply.h"

namespace paddleop::controllers::paddlejob {
namespace {

// Pods of a job change their state one after the other; a write for each would cost more than it
// tells.
constexpr std::chrono::seconds kCountersMayWait(5);
constexpr std::chrono::seconds kRetryEtcd(30);

void ComeAgain(kube::Requeue& requeue, Clock::Duration after) {
  if (!requeue.after || after < *requeue.after) requeue.after = after;
}

// Puts the condition back as it is stored: one that did not change keeps its time.
void Restore(const api::PaddleJobStatus& stored, const char* type, api::PaddleJobStatus& status) {
  const api::Condition* before = api::FindCondition(stored.conditions, type);
  if (before == nullptr) return;
  for (auto& condition : status.conditions) {
    if (condition.type == type) condition = *before;
  }
}

bool IsRefusal(const Status& status) {
  return status.code() == Code::kInvalid || status.code() == Code::kPermission ||
         status.code() == Code::kAlreadyExists;
}

}  // namespace

JobReconciler::JobReconciler(Settings settings, Parts parts)
    : settings_(std::move(settings)), parts_(parts) {}

Result<kube::Requeue> JobReconciler::Reconcile(const Context& ctx, const kube::ObjectKey& key) {
  auto seen = Observe(key);
  if (!seen && IsNotFound(seen.error())) {
    Forget(key);  // owner references clean up
    return kube::Requeue{};
  }
  if (!seen) return std::unexpected(std::move(seen).error());

  const Plan plan = Decide(settings_, *seen);
  kube::Requeue requeue;
  if (plan.recheck) requeue.after = *plan.recheck;
  RETURN_IF_ERROR(CarryOut(ctx, *seen, plan, requeue));
  return requeue;
}

Result<Observed> JobReconciler::Observe(const kube::ObjectKey& key) {
  Observed seen;
  seen.job = parts_.caches.paddle_jobs().Get(key);
  if (!seen.job) return Fail(Code::kNotFound, "PaddleJob {}", key.ToString());
  const auto& job = *seen.job;
  seen.pods = parts_.children.pods.ByIndex(Children::kByOwner, job.metadata.uid);
  seen.services = parts_.children.services.ByIndex(Children::kByOwner, job.metadata.uid);
  seen.config_map = parts_.children.config_maps.Get(key);
  if (seen.config_map && !IsControlledBy(seen.config_map->metadata, job.metadata))
    seen.config_map.reset();
  if (parts_.children.pod_groups) seen.pod_group = parts_.children.pod_groups->Get(key);
  if (const auto& ref = job.spec.sample_set_ref) {
    seen.sample_set = parts_.caches.sample_sets().Get({key.ns, ref->name});
    const bool named = seen.sample_set && !seen.sample_set->status.node_label.empty();
    seen.cache_nodes = parts_.caches.nodes().ByIndex(
        Caches::kBySetLabel,
        named ? seen.sample_set->status.node_label : api::SampleSetLabel(ref->name));
  }
  if (job.spec.IsHost()) FindPorts(seen);
  seen.now = std::chrono::floor<std::chrono::seconds>(parts_.clock.WallNow());
  return seen;
}

void JobReconciler::FindPorts(Observed& seen) {
  const std::string name = seen.job->metadata.Key().ToString();
  if (seen.job->status.Finished() || seen.job->metadata.Deleting()) {
    parts_.ports.Release(name);
    return;
  }
  const auto stored = StoredPortBlocks(seen.job->metadata);
  const int needed = PortBlocksNeeded(*seen.job, seen.pods);
  if (needed == 0) {
    seen.port_blocks = stored;
    return;
  }
  std::map<std::string, std::vector<int>> others;
  for (const auto& other : parts_.caches.paddle_jobs().List()) {
    if (other->status.Finished() || other->metadata.uid == seen.job->metadata.uid) continue;
    auto blocks = StoredPortBlocks(other->metadata);
    if (!blocks.empty()) others.emplace(other->metadata.Key().ToString(), std::move(blocks));
  }
  seen.port_blocks = parts_.ports.Blocks(name, needed, stored, others);
}

Result<void> JobReconciler::CarryOut(const Context& ctx, const Observed& seen, const Plan& plan,
                                     kube::Requeue& requeue) {
  const auto& job = *seen.job;
  const kube::ObjectKey key = job.metadata.Key();
  if (!plan.job_patch.empty()) RETURN_IF_ERROR(PatchJob(ctx, job, plan.job_patch));
  if (job.metadata.Deleting()) {
    AnnounceWorkers(ctx, seen, plan, requeue);
    return {};
  }
  if (plan.status_first) RETURN_IF_ERROR(WriteStatus(ctx, job, plan.status, true));

  auto applied =
      parts_.applier.Apply(ctx, OwnerByReference("this job", job.metadata.uid), plan.steps);
  if (!applied) {
    if (IsRefusal(applied.error())) Refused(ctx, seen, plan, applied.error());
    return applied;
  }
  AnnounceWorkers(ctx, seen, plan, requeue);
  if (!plan.status_first && !MayWait(key, job.status, plan.status, requeue)) {
    RETURN_IF_ERROR(WriteStatus(ctx, job, plan.status, false));
  }
  for (const ChangeNote& note : plan.notes) Tell(seen, note);
  if (!plan.delete_job) return {};

  kube::DeleteOptions options;
  options.preconditions.uid = job.metadata.uid;
  auto deleted = parts_.client.Delete(ctx, api::PaddleJob::kType, key, options);
  if (!deleted && !IsNotFound(deleted.error()) && !IsConflict(deleted.error())) return deleted;
  return {};
}

void JobReconciler::Refused(const Context& ctx, const Observed& seen, const Plan& plan,
                            const Status& why) {
  api::PaddleJobStatus status = plan.status;
  const std::string reason = why.code() == Code::kAlreadyExists ? "NameTaken" : "Refused";
  Restore(seen.job->status, condition::kAccepted, status);
  api::SetCondition(status.conditions,
                    {.type = condition::kAccepted,
                     .status = std::string(api::kStatusFalse),
                     .observed_generation = seen.job->metadata.generation,
                     .reason = reason,
                     .message = why.message()},
                    seen.now);
  // Pods may run in the environment that somebody else's ConfigMap gives them; the job does not.
  if (reason == "NameTaken" || status.phase.empty()) {
    status.phase = api::job_phase::kPending;
    status.start_time = seen.job->status.start_time;
    Restore(seen.job->status, condition::kRunning, status);
    api::SetCondition(status.conditions,
                      {.type = condition::kRunning,
                       .status = std::string(api::kStatusFalse),
                       .observed_generation = seen.job->metadata.generation,
                       .reason = reason,
                       .message = why.message()},
                      seen.now);
  }
  const api::Condition* before =
      api::FindCondition(seen.job->status.conditions, condition::kAccepted);
  if (before == nullptr || before->message != why.message())
    Tell(seen, {true, reason, why.message()});
  if (auto written = WriteStatus(ctx, *seen.job, status, false); !written) {
    parts_.log.Warn(ctx, "status not written", {{"error", written.error().message()}});
  }
}

Result<void> JobReconciler::PatchJob(const Context& ctx, const api::PaddleJob& job,
                                     const std::string& patch) {
  auto done = parts_.client.Patch(ctx, api::PaddleJob::kType, job.metadata.Key(),
                                  kube::MergePatch(patch, "", {.uid = job.metadata.uid}));
  if (!done && IsNotFound(done.error())) return {};
  if (!done) return std::unexpected(std::move(done).error());
  // The last finalizer is off: the answer is the object as it was, and the watch tells of its end.
  if (!job.metadata.Deleting()) parts_.caches.paddle_jobs().Learn(*done);
  return {};
}

Result<void> JobReconciler::WriteStatus(const Context& ctx, const api::PaddleJob& job,
                                        const api::PaddleJobStatus& status, bool unchanged_only) {
  {
    MutexLock lock(mutex_);
    waiting_.erase(job.metadata.Key());
  }
  kube::Preconditions preconditions{.uid = job.metadata.uid};
  if (unchanged_only) preconditions.resource_version = job.metadata.resource_version;
  auto done = kube::PatchStatus(ctx, parts_.client, api::PaddleJob::kType, job.metadata.Key(),
                                api::DumpJson(api::ToJson(job.status)),
                                api::DumpJson(api::ToJson(status)), preconditions);
  if (!done) return std::unexpected(std::move(done).error());
  if (*done) parts_.caches.paddle_jobs().Learn(**done);
  return {};
}

bool JobReconciler::MayWait(const kube::ObjectKey& key, const api::PaddleJobStatus& before,
                            const api::PaddleJobStatus& after, kube::Requeue& requeue) {
  api::PaddleJobStatus same = after;
  for (const Role role : kRoles)
    RoleStatus(same, role) = RoleStatus(const_cast<api::PaddleJobStatus&>(before), role);
  if (!(same == before) || before == after) return false;
  const auto now = parts_.clock.Now();
  MutexLock lock(mutex_);
  const auto [it, first] = waiting_.try_emplace(key, now);
  const auto until = it->second + kCountersMayWait;
  if (now >= until) return false;
  ComeAgain(requeue, until - now);
  return true;
}

void JobReconciler::AnnounceWorkers(const Context& ctx, const Observed& seen, const Plan& plan,
                                    kube::Requeue& requeue) {
  if (!plan.elastic_np || parts_.etcd == nullptr) return;
  const kube::ObjectKey key = seen.job->metadata.Key();
  {
    MutexLock lock(mutex_);
    const auto it = announced_.find(key);
    if (it != announced_.end() && it->second == *plan.elastic_np) return;
  }
  const std::string np_key = NpKey(JobId(seen.job->metadata));
  auto done = *plan.elastic_np < 0
                  ? parts_.etcd->Remove(ctx, np_key)
                  : parts_.etcd->Put(ctx, np_key, std::to_string(*plan.elastic_np));
  if (!done) {
    // Today's launchers do not read the key, so a job must not stop for it.
    parts_.log.Warn(ctx, "number of workers not written to etcd",
                    {{"error", done.error().message()}});
    ComeAgain(requeue, kRetryEtcd);
    return;
  }
  MutexLock lock(mutex_);
  announced_[key] = *plan.elastic_np;
}

void JobReconciler::Tell(const Observed& seen, const ChangeNote& note) {
  RecordNote(parts_.events, api::PaddleJob::kType, seen.job->metadata, note);
}

void JobReconciler::Forget(const kube::ObjectKey& key) {
  parts_.ports.Release(key.ToString());
  MutexLock lock(mutex_);
  waiting_.erase(key);
  announced_.erase(key);
}

}  // namespace paddleop::controllers::paddlejob
