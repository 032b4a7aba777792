#include "controllers/sampleset/decide.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "api/batch/rules.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/pass.h"

namespace paddleop::controllers::sampleset {
namespace {

using std::chrono::seconds;
namespace phase = api::set_phase;

// How often runtimes are asked while nothing is going on, and while something is. What the API
// server tells us needs no asking.
constexpr seconds kCalm(10);
constexpr seconds kBusy(2);
constexpr seconds kSecretAwaited(3);

bool HasFinalizer(Pass& pass) {
  const auto& meta = pass.set.metadata;
  const std::string finalizer = FinalizerOf(meta.name);
  if (meta.HasFinalizer(finalizer)) return true;
  auto finalizers = meta.finalizers;
  finalizers.push_back(finalizer);
  pass.plan.set_patch = api::DumpJson(
      {{"metadata", {{"resourceVersion", meta.resource_version}, {"finalizers", finalizers}}}});
  return false;
}

bool Accepted(Pass& pass) {
  std::string problem = api::Describe(api::Validate(pass.set));
  if (problem.empty()) {
    auto checked = CheckSpec(pass.set.spec);
    if (!checked) problem = checked.error().message();
  }
  if (!problem.empty()) {
    pass.Say(condition::kAccepted, false, "InvalidSpec", problem, true);
    return false;
  }
  pass.Say(condition::kAccepted, true, "Accepted", "the spec is complete");
  return true;
}

// Names in cluster scope are stored before anything has them, and chosen anew only as long as
// nothing could get them.
bool Named(Pass& pass) {
  auto& status = pass.plan.status;
  const auto& meta = pass.set.metadata;
  const bool lost = pass.seen.plain_name_taken && status.volume_name == meta.name;
  if (!status.volume_name.empty() && !status.node_label.empty() && !lost) return true;
  status.volume_name = pass.seen.plain_name_taken ? LongName(meta) : meta.name;
  status.node_label = api::SampleSetLabel(status.volume_name);
  pass.plan.status_first = true;
  if (pass.seen.plain_name_taken) {
    pass.plan.Tell(
        false, "LongNames",
        fmt::format("another namespace has a SampleSet or volume named {}; the volume is "
                    "{}, the node label {}",
                    meta.name, status.volume_name, status.node_label));
  }
  return false;
}

bool SecretReady(Pass& pass) {
  const auto& view = pass.seen.volume_secret;
  if (!view.found()) {
    pass.Say(condition::kSecretReady, false, "ErrorSecretNotExist", view.Problem("spec.secretRef"),
             true);
    return false;
  }
  std::vector<std::string_view> missing;
  for (std::size_t i = 0; i < kNeededVolumeKeys; ++i) {
    if (view.secret->Value(kVolumeKeys[i]).empty()) missing.push_back(kVolumeKeys[i]);
  }
  if (!missing.empty()) {
    pass.Say(condition::kSecretReady, false, "SecretIncomplete",
             fmt::format("spec.secretRef: Secret {} has no value for {}; needed are name, storage, "
                         "bucket and metaurl",
                         view.key.ToString(), fmt::join(missing, ", ")),
             true);
    return false;
  }
  const std::string meta_url = view.secret->Value("metaurl").Reveal();
  const std::string scheme = meta_url.substr(0, meta_url.find("://"));
  const bool known = scheme == "redis" || scheme == "rediss" || scheme == "sqlite3" ||
                     scheme == "unix" || pass.set.spec.Driver() == api::csi_driver::kJuicefs;
  if (!known) {
    pass.Say(condition::kSecretReady, false, "SecretInvalid",
             fmt::format("spec.secretRef: metaurl of Secret {} must begin with redis://, rediss:// "
                         "or sqlite3://",
                         view.key.ToString()),
             true);
    return false;
  }
  pass.Say(condition::kSecretReady, true, "Complete", "Secret " + view.key.ToString());
  return true;
}

// Why no runtime serves yet, in the words of whoever knows best.
std::string WhyNotServing(const Pass& pass) {
  for (const auto& runtime : pass.seen.runtimes) {
    const auto& pod = *runtime.pod;
    const std::string& name = pod.metadata.name;
    if (pod.ready) continue;
    if (pod.unschedulable_since)
      return fmt::format("{} cannot be placed: {}", name, pod.unschedulable_message);
    if (runtime.info && !runtime.info->ready && !runtime.info->message.empty())
      return fmt::format("{}: {}", name, runtime.info->message);
    for (const auto& container : pod.containers) {
      if (container.state != api::ContainerStatus::State::kRunning && !container.reason.empty()) {
        return fmt::format("{}: {}{}{}", name, container.reason,
                           container.message.empty() ? "" : ": ", container.message);
      }
    }
    const auto node = pass.seen.nodes.find(pod.node_name);
    if (node != pass.seen.nodes.end() && (!node->second || !node->second->ready)) {
      return fmt::format("{}: node {} is {}", name, pod.node_name,
                         node->second ? "not ready" : "gone");
    }
    return fmt::format("{} is starting", name);
  }
  return pass.seen.stateful_set ? "its pods are being made" : "its StatefulSet is being made";
}

void ReportRuntimes(Pass& pass) {
  const std::int32_t wanted = pass.Partitions();
  const std::int32_t ready = pass.ReadyRuntimes(wanted);
  if (pass.seen.stateful_set) {
    pass.plan.status.runtime_status =
        api::RuntimeStatus{.runtime_ready = fmt::format("{}/{}", ready, wanted),
                           .spec_replicas = pass.seen.stateful_set->replicas,
                           .ready_replicas = ready};
  }
  if (ready >= wanted) {
    pass.Say(condition::kRuntimeReady, true, "Ready", fmt::format("{} partitions serve", wanted));
    return;
  }
  const std::string why = WhyNotServing(pass);
  const bool warn = why.find("is starting") == std::string::npos &&
                    why.find("being made") == std::string::npos &&
                    why.find("Creating") == std::string::npos;
  pass.Say(condition::kRuntimeReady, false, "NotReady",
           fmt::format("{} of {} partitions serve; {}", ready, wanted, why), warn);
}

bool VolumeBound(Pass& pass) {
  const auto& volume = pass.seen.volume;
  const auto& claim = pass.seen.claim;
  const bool bound = volume && claim && volume->phase == "Bound" && claim->phase == "Bound" &&
                     !volume->metadata.Deleting() && !claim->metadata.Deleting();
  if (bound) {
    pass.Say(
        condition::kVolumeBound, true, "Bound",
        fmt::format("volume {} is bound to claim {}", volume->metadata.name, claim->metadata.name));
  } else {
    pass.Say(condition::kVolumeBound, false, "NotBound",
             fmt::format("volume {} is {}, claim {} is {}", pass.plan.status.volume_name,
                         volume ? volume->phase : "missing", pass.set.metadata.name,
                         claim ? claim->phase : "missing"));
  }
  return bound;
}

bool AllOnNodes(const Pass& pass) {
  std::set<std::string> nodes;
  std::int32_t labelled = 0;
  for (const auto& runtime : pass.seen.runtimes) {
    if (runtime.index >= pass.Partitions() || !IsServing(runtime)) continue;
    nodes.insert(runtime.pod->node_name);
    for (const auto& node : pass.seen.labelled) {
      if (node->metadata.name == runtime.pod->node_name &&
          node->metadata.Label(pass.plan.status.node_label) == runtime.pod->metadata.name) {
        ++labelled;
      }
    }
  }
  return static_cast<std::int32_t>(nodes.size()) == pass.Partitions() &&
         labelled == pass.Partitions();
}

// Fewer partitions are wanted than there are: those that stay take over before the others go.
void Resize(Pass& pass) {
  const auto& stateful_set = pass.seen.stateful_set;
  if (!stateful_set || stateful_set->replicas == pass.Partitions() || pass.resized) return;
  const std::int32_t wanted = pass.Partitions();
  if (wanted < stateful_set->replicas && pass.Holds(condition::kSynced) && !KeepWarm(pass, wanted))
    return;
  pass.resized = true;
  pass.plan.steps.push_back({.creates = {},
                             .patches = {{api::StatefulSet::kType, stateful_set->metadata.Key(),
                                          fmt::format(R"({{"spec":{{"replicas":{}}}}})", wanted),
                                          stateful_set->metadata.uid}},
                             .deletes = {}});
  pass.plan.Tell(false, "Scaled",
                 fmt::format("from {} to {} partitions", stateful_set->replicas, wanted));
}

// From where the data is in the volume on: is everything in place?
void SettleReady(Pass& pass) {
  Resize(pass);
  const auto& stateful_set = pass.seen.stateful_set;
  const bool sized = stateful_set && stateful_set->replicas == pass.Partitions();
  const bool serving = pass.ReadyRuntimes(pass.Partitions()) >= pass.Partitions();
  bool warm = false;
  if (sized && serving) warm = KeepWarm(pass, pass.Partitions());
  const bool ready = sized && serving && warm && AllOnNodes(pass);
  auto& status = pass.plan.status;
  if (ready) {
    if (status.phase != phase::kReady) pass.plan.Tell(false, "Ready", "the set can be used");
    status.phase = phase::kReady;
    pass.Say(condition::kReady, true, "Ready", "data and all partitions are there");
    pass.plan.RecheckAfter(pass.seen.data_job_active ? kBusy : kCalm);
    return;
  }
  status.phase = phase::kPartialReady;
  pass.Say(condition::kReady, false, "PartialReady",
           !sized     ? "the number of partitions is changing"
           : !serving ? "not all partitions serve"
           : !warm    ? "the cache is being warmed"
                      : "not every partition is on a labelled node of its own yet");
  pass.plan.RecheckAfter(kBusy);
}

void Advance(Pass& pass) {
  auto& current = pass.plan.status.phase;
  const bool bound = VolumeBound(pass);
  // Before there is data in the cache nothing has to be saved.
  if (current.empty() || current == phase::kBound) Resize(pass);
  if (current.empty()) {
    if (!bound) return pass.plan.RecheckAfter(seconds(5));
    current = phase::kBound;
  }
  if (current == phase::kBound) {
    if (pass.ReadyRuntimes(pass.Partitions()) == 0) return pass.plan.RecheckAfter(kBusy);
    current = phase::kMount;
  }
  if (!KeepSynced(pass)) {
    pass.Say(condition::kReady, false, current.empty() ? "Waiting" : current,
             "the data is not in the volume yet");
    pass.plan.RecheckAfter(current == phase::kSyncFailed ? kCalm : kBusy);
    return;
  }
  SettleReady(pass);
}

}  // namespace

Plan Decide(const Settings& settings, const Observed& seen) {
  Pass pass(settings, seen);
  if (pass.set.metadata.Deleting()) {
    Remove(pass);
    return std::move(pass.plan);
  }
  pass.plan.status.observed_generation = pass.set.metadata.generation;
  if (!HasFinalizer(pass) || !Accepted(pass) || !Named(pass)) return std::move(pass.plan);
  const bool secret_ready = SecretReady(pass);
  if (!secret_ready && !seen.volume_copy) {
    pass.Say(condition::kReady, false, "Waiting", "the Secret of the volume is not usable");
    // Secrets are not watched: whoever watches one may read them all.
    pass.plan.RecheckAfter(kSecretAwaited);
    return std::move(pass.plan);
  }
  KeepChildren(pass);
  ReportRuntimes(pass);
  KeepNodes(pass);
  KeepPeers(pass);
  ReportCache(pass);
  Advance(pass);
  return std::move(pass.plan);
}

}  // namespace paddleop::controllers::sampleset
