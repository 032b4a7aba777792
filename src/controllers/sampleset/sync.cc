#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "controllers/common/sources.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/pass.h"

namespace paddleop::controllers::sampleset {
namespace {

namespace phase = api::set_phase;

// All partitions share the work of an import; one that does not come up is waited for this long.
constexpr std::chrono::seconds kWaitForAll(60);

// What is imported from where, without any secret.
std::string OptionsDigest(const api::SampleSetSpec& spec) {
  api::Json sources = api::Json::array();
  for (const auto& source : spec.AllSources()) {
    sources.push_back(
        {source.uri, source.path,
         source.secret_ref ? source.secret_ref->ns + "/" + source.secret_ref->name : ""});
  }
  return HexEncode(Sha256(api::DumpJson(sources))).substr(0, 16);
}

// Another Secret may make a failed import succeed, so its version is part of the job's identity.
std::string SyncName(const Pass& pass) {
  std::string text = "sync/" + OptionsDigest(pass.set.spec);
  for (const auto& view : pass.seen.source_secrets) {
    text += "/";
    if (view.found()) text += view.secret->metadata.uid + view.secret->metadata.resource_version;
  }
  auto name = NameUuid(pass.set.metadata.uid, text);
  return name ? *name : std::string();
}

runtime::JobRequest SyncRequest(const Pass& pass, const std::string& name) {
  runtime::JobRequest request;
  request.kind = runtime::JobKind::kSync;
  request.name = name;
  const auto sources = pass.set.spec.AllSources();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const SecretView none;
    const bool has_secret = i < pass.seen.source_secrets.size();
    auto source = MakeSource(sources[i].uri, sources[i].path,
                             has_secret ? pass.seen.source_secrets[i] : none);
    request.sources.push_back(std::move(source));
  }
  return request;
}

// kNone is fine: a public source needs no keys.
bool SourceSecretsReady(Pass& pass) {
  const auto sources = pass.set.spec.AllSources();
  for (std::size_t i = 0; i < pass.seen.source_secrets.size(); ++i) {
    const auto& view = pass.seen.source_secrets[i];
    if (view.found() || view.state == SecretView::State::kNone) continue;
    const std::string field =
        pass.set.spec.source && i == 0
            ? "spec.source.secretRef"
            : fmt::format("spec.sources[{}].secretRef", i - (pass.set.spec.source ? 1 : 0));
    pass.Say(condition::kSynced, false, "ErrorSecretNotExist", view.Problem(field), true);
    return false;
  }
  return true;
}

void Begin(Pass& pass) {
  if (!SourceSecretsReady(pass)) return;
  if (!pass.RuntimeZeroReady()) {
    pass.Say(condition::kSynced, false, "WaitingForRuntime",
             fmt::format("{} is not ready", api::RuntimePodName(pass.set.metadata.name, 0)));
    return;
  }
  if (pass.ReadyRuntimes(pass.Partitions()) < pass.Partitions() &&
      pass.Since(condition::kVolumeBound) < kWaitForAll) {
    pass.Say(condition::kSynced, false, "WaitingForRuntime", "not all partitions are ready");
    return;
  }
  auto& status = pass.plan.status;
  status.phase = phase::kSyncing;
  status.sync_job_name = SyncName(pass);
  status.sync_options = OptionsDigest(pass.set.spec);
  pass.plan.status_first = true;
  pass.plan.post = SyncRequest(pass, status.sync_job_name);
  pass.Say(condition::kSynced, false, "Running", "the import has been started");
  pass.plan.Tell(false, "CreateSyncJobSuccessfully",
                 fmt::format("import {} of {} sources", status.sync_job_name,
                             pass.set.spec.AllSources().size()));
}

void Succeed(Pass& pass, const std::string& message) {
  auto& status = pass.plan.status;
  status.phase = phase::kMount;
  // An import writes through to the partition that will use the data.
  const bool warm_again = (pass.set.spec.warmup && pass.set.spec.warmup->automatic) ||
                          pass.ReasonOf(condition::kWarmed) == kCacheLost;
  status.warmed_partitions =
      warm_again || !pass.seen.stateful_set ? 0 : pass.seen.stateful_set->replicas;
  pass.Say(condition::kSynced, true, "Succeeded", message);
  pass.plan.Tell(false, "DoSyncJobSuccessfully", message);
}

void Failed(Pass& pass, const std::string& message) {
  pass.plan.status.phase = phase::kSyncFailed;
  pass.Say(condition::kSynced, false, "Failed", message);
  pass.plan.Tell(true, "ErrorDoSyncJob", message);
}

std::string Summary(const runtime::JobResult& result) {
  const auto printed = runtime::ForStatus(result.progress);
  const auto& files = result.progress.files;
  std::string text = fmt::format("{} of {} files", files.done + files.skipped, files.total);
  if (!printed.percent.empty()) text += ", " + printed.percent;
  if (!printed.rate.empty()) text += ", " + printed.rate;
  if (!printed.eta.empty()) text += ", " + printed.eta + " left";
  return text;
}

void Follow(Pass& pass) {
  const auto& job = pass.seen.sync_job;
  if (!job) {
    pass.Say(condition::kSynced, false, "Running",
             fmt::format("{} does not answer; the import goes on when it is back",
                         api::RuntimePodName(pass.set.metadata.name, 0)));
    return;
  }
  if (!job->known || job->result.state == runtime::JobState::kNeedsCredentials) {
    // Never posted, lost with its journal, or restarted without its keys: the same name again
    // cannot run twice.
    if (SourceSecretsReady(pass) && pass.RuntimeZeroReady())
      pass.plan.post = SyncRequest(pass, pass.plan.status.sync_job_name);
    return;
  }
  const auto& result = job->result;
  switch (result.state) {
    case runtime::JobState::kSucceeded:
      return Succeed(pass, Summary(result));
    case runtime::JobState::kFailed:
      return Failed(pass, result.message);
    case runtime::JobState::kCancelled:
      return Failed(pass, "the import was cancelled");
    default:
      pass.Say(condition::kSynced, false, "Running", Summary(result));
  }
}

}  // namespace

bool KeepSynced(Pass& pass) {
  auto& status = pass.plan.status;
  const auto& spec = pass.set.spec;
  if (spec.no_sync || spec.AllSources().empty()) {
    if (status.phase == phase::kSyncing) pass.plan.cancel.push_back(status.sync_job_name);
    if (!pass.Holds(condition::kSynced))
      pass.Say(condition::kSynced, true, "NotNeeded", "spec.noSync: the volume has its data");
    if (status.phase == phase::kSyncing || status.phase == phase::kSyncFailed)
      status.phase = phase::kMount;
    return true;
  }
  const bool same = status.sync_options == OptionsDigest(spec);
  if (status.phase == phase::kSyncing && same) {
    Follow(pass);
    return pass.Holds(condition::kSynced);
  }
  if (status.phase == phase::kSyncing) pass.plan.cancel.push_back(status.sync_job_name);
  if (same && pass.Holds(condition::kSynced)) return true;
  if (same && status.phase == phase::kSyncFailed && status.sync_job_name == SyncName(pass)) {
    // A SampleJob has brought the data since.
    const auto failed = pass.seen.now - pass.Since(condition::kSynced);
    if (!pass.seen.last_sync || *pass.seen.last_sync <= failed) return false;
    Succeed(pass, "a SampleJob has imported the data");
    return true;
  }
  // The reason for a failed import may be in what was changed.
  Begin(pass);
  return false;
}

}  // namespace paddleop::controllers::sampleset
