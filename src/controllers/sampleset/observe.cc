#include "controllers/sampleset/observe.h"

#include <fmt/format.h>

#include <algorithm>

#include "controllers/common/sources.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/pass.h"
#include "runtime/protocol/paths.h"

namespace paddleop::controllers::sampleset {
namespace {

// In a set that is ready, a changed Secret is noticed this late.
constexpr std::chrono::seconds kSecretsMayBe(20);
constexpr std::chrono::milliseconds kAskTimeout(3'000);

Result<std::shared_ptr<const api::SecretObject>> ReadOwn(const Context& ctx,
                                                         kube::ClusterClient& client,
                                                         const kube::ObjectKey& key) {
  auto raw = client.Get(ctx, api::SecretObject::kType, key);
  if (!raw && IsNotFound(raw.error())) return std::shared_ptr<const api::SecretObject>();
  if (!raw) return std::unexpected(std::move(raw).error());
  ASSIGN_OR_RETURN(auto secret, api::ParseAs<api::SecretObject>(raw->json));
  return std::make_shared<const api::SecretObject>(std::move(secret));
}

}  // namespace

Observer::Observer(kube::ClusterClient& client, Caches& caches, Children& children,
                   ChangeApplier& parallel, RuntimePool& runtimes, Clock& clock)
    : client_(client),
      caches_(caches),
      children_(children),
      parallel_(parallel),
      runtimes_(runtimes),
      clock_(clock) {}

Result<Observed> Observer::Observe(const Context& ctx, const kube::ObjectKey& key) {
  Observed seen;
  seen.set = caches_.sample_sets().Get(key);
  if (!seen.set) return Fail(Code::kNotFound, "SampleSet {}", key.ToString());
  const auto& set = *seen.set;
  seen.now = std::chrono::floor<std::chrono::seconds>(clock_.WallNow());
  if (!set.status.volume_name.empty())
    seen.volume = children_.volumes.Get({"", set.status.volume_name});
  seen.claim = children_.claims.Get(key);
  RETURN_IF_ERROR(CheckName(ctx, seen));
  RETURN_IF_ERROR(ReadSecrets(ctx, seen));
  seen.service = children_.services.Get({key.ns, ServiceName(key.name)});
  seen.stateful_set = children_.stateful_sets.Get({key.ns, StatefulSetName(key.name)});
  for (const auto& pod : caches_.runtime_pods().ByIndex(Caches::kBySetUid, set.metadata.uid)) {
    const auto index = RuntimeIndex(key.name, pod->metadata.name);
    if (index) seen.runtimes.push_back({.index = *index, .pod = pod, .info = {}, .error = {}});
  }
  std::sort(seen.runtimes.begin(), seen.runtimes.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  LookAtNodes(seen);
  LookAtJobs(seen);
  RETURN_IF_ERROR(AskRuntimes(ctx, seen));
  return seen;
}

Result<void> Observer::CheckName(const Context& ctx, Observed& seen) {
  const auto& set = *seen.set;
  if (set.status.volume_name.empty()) {
    seen.plain_name_taken = NamesakeGoesFirst(set);
    if (seen.plain_name_taken) return {};
  } else if (set.status.volume_name != set.metadata.name || IsOurs(set, seen.volume) ||
             IsOurs(set, seen.claim)) {
    return {};  // nobody can take it away any more
  }
  auto volume = client_.Get(ctx, api::PersistentVolume::kType, {"", set.metadata.name});
  if (!volume && IsNotFound(volume.error())) return {};
  if (!volume) return std::unexpected(std::move(volume).error());
  seen.plain_name_taken = volume->Label(kSetUidLabel) != set.metadata.uid;
  return {};
}

bool Observer::NamesakeGoesFirst(const api::SampleSet& set) const {
  for (const auto& other : caches_.sample_sets().List()) {
    if (other->metadata.name != set.metadata.name || other->metadata.uid == set.metadata.uid)
      continue;
    // Of two that have no names yet the older one gets the plain one.
    const bool older = std::pair(other->metadata.creation_timestamp, other->metadata.uid) <
                       std::pair(set.metadata.creation_timestamp, set.metadata.uid);
    if (other->status.volume_name == set.metadata.name ||
        (other->status.volume_name.empty() && older)) {
      return true;
    }
  }
  return false;
}

Result<Observer::Secrets> Observer::ReadSecretsNow(const Context& ctx, const api::SampleSet& set) {
  Secrets secrets;
  const std::string& ns = set.metadata.ns;
  ASSIGN_OR_RETURN(secrets.volume, ReadSecret(ctx, client_, set.spec.secret_ref, ns));
  if (!set.spec.no_sync && !set.metadata.Deleting()) {
    for (const auto& source : set.spec.AllSources()) {
      SecretView view;
      if (source.secret_ref) {
        ASSIGN_OR_RETURN(view, ReadSecret(ctx, client_, source.secret_ref, ns));
      } else if (SharesKeys(source.uri, secrets.volume)) {
        view = secrets.volume;
      }
      secrets.sources.push_back(std::move(view));
    }
  }
  ASSIGN_OR_RETURN(secrets.auth, ReadOwn(ctx, client_, {ns, RuntimeAuthName(set.metadata.name)}));
  ASSIGN_OR_RETURN(secrets.volume_copy,
                   ReadOwn(ctx, client_, {ns, VolumeSecretName(set.metadata.name)}));
  secrets.read = clock_.Now();
  secrets.resource_version = std::to_string(set.metadata.generation);
  return secrets;
}

Result<void> Observer::ReadSecrets(const Context& ctx, Observed& seen) {
  const auto& set = *seen.set;
  const kube::ObjectKey key = set.metadata.Key();
  std::optional<Secrets> secrets;
  {
    MutexLock lock(mutex_);
    const auto it = secrets_.find(key);
    const bool fresh = it != secrets_.end() && set.status.phase == api::set_phase::kReady &&
                       !set.metadata.Deleting() &&
                       it->second.resource_version == std::to_string(set.metadata.generation) &&
                       clock_.Now() - it->second.read < kSecretsMayBe;
    if (fresh) secrets = it->second;
  }
  if (!secrets) {
    ASSIGN_OR_RETURN(secrets, ReadSecretsNow(ctx, set));
    MutexLock lock(mutex_);
    secrets_[key] = *secrets;
  }
  seen.volume_secret = secrets->volume;
  seen.source_secrets = secrets->sources;
  seen.auth = secrets->auth;
  seen.volume_copy = secrets->volume_copy;
  return {};
}

void Observer::LookAtNodes(Observed& seen) {
  if (!seen.set->status.node_label.empty()) {
    for (const auto& node :
         caches_.nodes().ByIndex(Caches::kBySetLabel, seen.set->status.node_label)) {
      seen.labelled.push_back(node);
    }
  }
  for (const auto& runtime : seen.runtimes) {
    const std::string& node = runtime.pod->node_name;
    if (!node.empty()) seen.nodes[node] = caches_.nodes().Get({"", node});
  }
}

void Observer::LookAtJobs(Observed& seen) {
  const std::string key = seen.set->metadata.Key().ToString();
  seen.users = caches_.paddle_jobs().ByIndex(Caches::kBySampleSet, key);
  for (const auto& job : caches_.sample_jobs().ByIndex(Caches::kBySampleSet, key)) {
    const auto& status = job->status;
    if (!job->spec.schedule.empty() || status.job_name.empty()) continue;
    if (!status.Finished()) seen.data_job_active = true;
    // Just ended: what it changed is not reported yet.
    if (status.completion_time && seen.now - *status.completion_time < std::chrono::seconds(15))
      seen.data_job_active = true;
    if (job->spec.type == "sync" && status.phase == api::data_phase::kSucceeded &&
        status.completion_time && (!seen.last_sync || *seen.last_sync < *status.completion_time)) {
      seen.last_sync = status.completion_time;
    }
  }
}

Result<std::shared_ptr<runtime::RuntimeClient>> Observer::Dial(const Observed& seen,
                                                               std::int32_t index) {
  for (const auto& runtime : seen.runtimes) {
    if (runtime.index != index || runtime.pod->pod_ip.empty()) continue;
    if (!seen.auth) break;
    const RuntimeAccess access = RuntimeAccess::From(*seen.auth);
    if (!access.usable()) break;
    const auto& meta = seen.set->metadata;
    return runtimes_.Find(
        runtime.pod->pod_ip,
        runtime::RuntimeTlsName(meta.name, meta.ns, static_cast<std::uint32_t>(index)), access);
  }
  return Fail(Code::kUnavailable, "runtime {} of the set has no address or no keys yet", index);
}

Result<void> Observer::AskRuntimes(const Context& ctx, Observed& seen) {
  std::vector<ChangeApplier::Task> tasks;
  const Context asking = ctx.WithTimeout(kAskTimeout);
  for (auto& runtime : seen.runtimes) {
    if (!IsServing(runtime) || runtime.pod->pod_ip.empty()) continue;
    tasks.emplace_back([&, this]() -> Result<void> {
      auto client = Dial(seen, runtime.index);
      if (!client) {
        runtime.error = client.error().message();
        return {};
      }
      auto info = (*client)->GetCacheInfo(asking);
      if (info) {
        runtime.info = *std::move(info);
      } else {
        runtime.error = info.error().message();
      }
      return {};
    });
  }
  const auto& status = seen.set->status;
  if (status.phase == api::set_phase::kSyncing) {
    tasks.emplace_back([&, this]() -> Result<void> {
      AskForJob(asking, seen, runtime::JobKind::kSync, status.sync_job_name, seen.sync_job);
      return {};
    });
  }
  const api::Condition* warmed = api::FindCondition(status.conditions, condition::kWarmed);
  if (warmed != nullptr && warmed->reason == "Running") {
    tasks.emplace_back([&, this]() -> Result<void> {
      AskForJob(asking, seen, runtime::JobKind::kWarmup, status.warmup_job_name, seen.warmup_job);
      return {};
    });
  }
  return parallel_.RunAll(ctx, std::move(tasks));
}

void Observer::AskForJob(const Context& ctx, const Observed& seen, runtime::JobKind kind,
                         const std::string& name, std::optional<JobSeen>& out) {
  auto client = Dial(seen, 0);
  if (!client) return;
  auto result = (*client)->GetResult(ctx, kind, name);
  if (result) {
    out = JobSeen{.known = true, .result = *std::move(result)};
  } else if (IsNotFound(result.error())) {
    out = JobSeen{};
  }
}

void Observer::Forget(const kube::ObjectKey& key) {
  MutexLock lock(mutex_);
  secrets_.erase(key);
}

void Observer::Refresh(const kube::ObjectKey& key) { Forget(key); }

}  // namespace paddleop::controllers::sampleset
