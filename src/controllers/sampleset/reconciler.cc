#include "controllers/sampleset/reconciler.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "controllers/common/child.h"
#include "controllers/common/own_object.h"
#include "controllers/sampleset/credentials.h"
#include "controllers/sampleset/decide.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/pass.h"
#include "kube/client/apply.h"

namespace paddleop::controllers::sampleset {
namespace {

ChangeOwner Owner(const api::SampleSet& set) {
  return OwnerByLabel("this set", std::string(kSetUidLabel), set.metadata.uid);
}

constexpr std::chrono::seconds kFiguresMayWait(60);

bool IsRefusal(const Status& status) {
  return status.code() == Code::kInvalid || status.code() == Code::kPermission ||
         status.code() == Code::kAlreadyExists;
}

void KeepCondition(api::SampleSetStatus& status, const api::SampleSetStatus& before,
                   const char* type) {
  api::RemoveCondition(status.conditions, type);
  if (const api::Condition* old = api::FindCondition(before.conditions, type))
    status.conditions.push_back(*old);
}

}  // namespace

SetReconciler::SetReconciler(Settings settings, Parts parts)
    : settings_(std::move(settings)), parts_(parts) {}

Result<kube::Requeue> SetReconciler::Reconcile(const Context& ctx, const kube::ObjectKey& key) {
  auto seen = parts_.observer.Observe(ctx, key);
  if (!seen && IsNotFound(seen.error())) {
    Forget(key);
    return kube::Requeue{};
  }
  if (!seen) return std::unexpected(std::move(seen).error());
  Plan plan = Decide(settings_, *seen);
  RETURN_IF_ERROR(CarryOut(ctx, *seen, plan));
  kube::Requeue requeue;
  if (plan.recheck) requeue.after = *plan.recheck;
  return requeue;
}

Result<void> SetReconciler::CarryOut(const Context& ctx, const Observed& seen, Plan& plan) {
  const auto& set = *seen.set;
  const kube::ObjectKey key = set.metadata.Key();
  if (!plan.set_patch.empty()) {
    ASSIGN_OR_RETURN(
        const auto patched,
        parts_.client.Patch(ctx, api::SampleSet::kType, key,
                            kube::MergePatch(plan.set_patch, "", {.uid = set.metadata.uid})));
    parts_.caches.sample_sets().Learn(patched);
    return {};
  }
  if (plan.status_first) RETURN_IF_ERROR(WriteStatus(ctx, set, plan.status, true));
  if (plan.auth.any() || !plan.steps.empty()) parts_.observer.Refresh(key);

  auto applied = plan.auth.any() ? KeepAuth(ctx, seen, plan.auth) : Result<void>();
  if (applied && plan.purge && !Purge(ctx, seen, plan)) plan.steps.clear();
  if (applied) applied = parts_.applier.Apply(ctx, Owner(set), plan.steps);
  if (!applied) {
    if (IsRefusal(applied.error())) Refused(ctx, seen, plan, applied.error());
    return applied;
  }
  if (plan.drop_finalizer)
    return DropFinalizer(ctx, parts_.client, api::SampleSet::kType, set.metadata,
                         FinalizerOf(set.metadata.name));

  if (!plan.cancel.empty()) Cancel(ctx, seen, plan.cancel);
  const bool connected = !plan.peers || SendPeers(ctx, seen, *plan.peers);
  const bool posted = plan.post.has_value();
  // One that does not know the others could not do its part. The next pass finds that the runtime
  // does not know the job, and posts it.
  if (posted && connected) Post(ctx, seen, plan);
  if (!plan.status_first || posted) {
    // After a first write the cache has the newer object to compare with.
    const auto current = plan.status_first ? parts_.caches.sample_sets().Get(key) : seen.set;
    if (current && !MayWait(key, current->status, plan.status))
      RETURN_IF_ERROR(WriteStatus(ctx, *current, plan.status, false));
  }
  for (const ChangeNote& note : plan.notes) Tell(set, note);
  return {};
}

Result<void> SetReconciler::KeepAuth(const Context& ctx, const Observed& seen,
                                     const AuthWork& work) {
  const auto& set = *seen.set;
  const bool ours = seen.auth && seen.auth->metadata.Label(kSetUidLabel) == set.metadata.uid;
  ASSIGN_OR_RETURN(auto object, MakeAuth(set, ours ? seen.auth.get() : nullptr, work, seen.now));
  ChangeStep step;
  if (ours) {
    step.patches.push_back(
        {object.type, object.key, std::move(object.json), seen.auth->metadata.uid});
  } else {
    step.creates.push_back(std::move(object));
  }
  RETURN_IF_ERROR(parts_.applier.Apply(ctx, Owner(set), {step}));
  if (ours) {
    Tell(set, {false, "CredentialsRenewed",
               work.certificate || work.authority
                   ? "the certificate and the token of the runtimes are new"
                   : "the token of the runtimes has changed"});
  }
  return {};
}

bool SetReconciler::SendPeers(const Context& ctx, const Observed& seen,
                              const runtime::PeerTable& wanted) {
  const kube::ObjectKey key = seen.set->metadata.Key();
  std::uint64_t highest = 0;
  for (const auto& runtime : seen.runtimes) {
    if (runtime.info) highest = std::max(highest, runtime.info->peers_generation);
  }
  runtime::PeerTable table;
  {
    MutexLock lock(mutex_);
    auto& stored = tables_[key];
    if (stored.peers != wanted.peers || highest > stored.generation) {
      stored.peers = wanted.peers;
      stored.generation = std::max(stored.generation, highest) + 1;
    }
    table = stored;
  }
  bool all = true;
  std::vector<ChangeApplier::Task> tasks;
  for (const auto& runtime : seen.runtimes) {
    if (!runtime.info || !runtime.info->ready) {
      // One that is about to leave has no part in what comes.
      const bool stays = static_cast<std::size_t>(runtime.index) < table.peers.size();
      all = all && !(stays && runtime.pod->ready && IsServing(runtime));
      continue;
    }
    if (runtime.info->peers_generation == table.generation) continue;
    tasks.emplace_back([&, this]() -> Result<void> {
      ASSIGN_OR_RETURN(const auto client, parts_.observer.Dial(seen, runtime.index));
      return client->PutPeers(ctx, table);
    });
  }
  auto sent = parts_.applier.RunAll(ctx, std::move(tasks));
  // The next pass sees who works by another table, and sends it again.
  if (!sent) parts_.log.Warn(ctx, "peers not sent", {{"error", sent.error().message()}});
  return sent && all;
}

bool SetReconciler::Purge(const Context& ctx, const Observed& seen, Plan& plan) {
  std::vector<std::string> left;
  bool wait = false;
  Mutex mutex;
  std::vector<ChangeApplier::Task> tasks;
  tasks.reserve(seen.runtimes.size());
  for (const auto& runtime : seen.runtimes) {
    tasks.emplace_back([&, this]() -> Result<void> {
      auto client = parts_.observer.Dial(seen, runtime.index);
      auto done = client ? (*client)->Purge(ctx) : std::unexpected(client.error());
      if (done) return {};
      MutexLock lock(mutex);
      wait = wait || plan.purge_first.contains(runtime.index);
      left.push_back(runtime.pod->node_name.empty() ? runtime.pod->metadata.name
                                                    : runtime.pod->node_name);
      return {};
    });
  }
  auto ran = parts_.applier.RunAll(ctx, std::move(tasks));
  if (!ran) parts_.log.Warn(ctx, "purge not finished", {{"error", ran.error().message()}});
  if (wait || !ran) return plan.purge_first.empty();
  if (left.empty()) return true;
  std::sort(left.begin(), left.end());
  plan.Tell(
      true, "CacheLeftBehind",
      fmt::format("cached data could not be removed from {}; delete the cache directory there",
                  JoinNames(left)));
  return true;
}

void SetReconciler::Cancel(const Context& ctx, const Observed& seen,
                           const std::vector<std::string>& jobs) {
  auto client = parts_.observer.Dial(seen, 0);
  if (!client) return;
  for (const std::string& job : jobs) {
    auto done = (*client)->Cancel(ctx, job);
    if (!done && !IsNotFound(done.error()))
      parts_.log.Warn(ctx, "job not cancelled", {{"job", job}, {"error", done.error().message()}});
  }
}

void SetReconciler::Post(const Context& ctx, const Observed& seen, Plan& plan) {
  auto client = parts_.observer.Dial(seen, 0);
  auto posted = client ? (*client)->Post(ctx, *plan.post)
                       : Result<runtime::JobResult>(std::unexpected(client.error()));
  if (posted) return;
  const Code code = posted.error().code();
  const std::string message = posted.error().message();
  if (code != Code::kInvalid && code != Code::kConflict && code != Code::kNotSupported) {
    parts_.log.Warn(ctx, "job not posted", {{"job", plan.post->name}, {"error", message}});
    return;  // the next pass finds that the runtime does not know it
  }
  const bool sync = plan.post->kind == runtime::JobKind::kSync;
  if (sync) plan.status.phase = api::set_phase::kSyncFailed;
  api::SetCondition(plan.status.conditions,
                    {.type = sync ? condition::kSynced : condition::kWarmed,
                     .status = std::string(api::kStatusFalse),
                     .observed_generation = seen.set->metadata.generation,
                     .reason = "Failed",
                     .message = message},
                    seen.now);
  plan.Tell(true, sync ? "ErrorCreateSyncJob" : "ErrorCreateWarmupJob", message);
}

void SetReconciler::Refused(const Context& ctx, const Observed& seen, const Plan& plan,
                            const Status& why) {
  const auto& set = *seen.set;
  const auto current = parts_.caches.sample_sets().Get(set.metadata.Key());
  const auto& before = current ? current->status : set.status;
  api::SampleSetStatus status = plan.status;
  const std::string reason = why.code() == Code::kAlreadyExists ? "NameTaken" : "Refused";
  KeepCondition(status, before, condition::kAccepted);
  const api::Condition* said = api::FindCondition(before.conditions, condition::kAccepted);
  const bool told = said != nullptr && said->message == why.message();
  api::SetCondition(status.conditions,
                    {.type = condition::kAccepted,
                     .status = std::string(api::kStatusFalse),
                     .observed_generation = set.metadata.generation,
                     .reason = reason,
                     .message = why.message()},
                    seen.now);
  if (!told) Tell(set, {true, reason, why.message()});
  if (auto written = WriteStatus(ctx, current ? *current : set, status, false); !written)
    parts_.log.Warn(ctx, "status not written", {{"error", written.error().message()}});
}

Result<void> SetReconciler::WriteStatus(const Context& ctx, const api::SampleSet& set,
                                        const api::SampleSetStatus& status, bool unchanged_only) {
  kube::Preconditions preconditions{.uid = set.metadata.uid, .resource_version = {}};
  if (unchanged_only) preconditions.resource_version = set.metadata.resource_version;
  auto done = kube::PatchStatus(ctx, parts_.client, api::SampleSet::kType, set.metadata.Key(),
                                api::DumpJson(api::ToJson(set.status)),
                                api::DumpJson(api::ToJson(status)), preconditions);
  if (!done && IsNotFound(done.error())) return {};
  if (!done) return std::unexpected(std::move(done).error());
  if (!*done) return {};
  parts_.caches.sample_sets().Learn(**done);
  MutexLock lock(mutex_);
  written_[set.metadata.Key()] = parts_.clock.Now();
  return {};
}

bool SetReconciler::MayWait(const kube::ObjectKey& key, const api::SampleSetStatus& before,
                            const api::SampleSetStatus& after) {
  if (!before.cache_status || !after.cache_status || before == after) return false;
  api::SampleSetStatus same = after;
  const auto& old = *before.cache_status;
  same.cache_status->disk_size = old.disk_size;
  same.cache_status->disk_used = old.disk_used;
  same.cache_status->disk_avail = old.disk_avail;
  same.cache_status->disk_usage_rate = old.disk_usage_rate;
  same.cache_status->hit_ratio = old.hit_ratio;
  if (!(same == before)) return false;
  MutexLock lock(mutex_);
  const auto it = written_.find(key);
  return it != written_.end() && parts_.clock.Now() - it->second < kFiguresMayWait;
}

void SetReconciler::Tell(const api::SampleSet& set, const ChangeNote& note) {
  RecordNote(parts_.events, api::SampleSet::kType, set.metadata, note);
}

void SetReconciler::Forget(const kube::ObjectKey& key) {
  parts_.observer.Forget(key);
  MutexLock lock(mutex_);
  tables_.erase(key);
  written_.erase(key);
}

}  // namespace paddleop::controllers::sampleset
