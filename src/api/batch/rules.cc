#include "api/batch/rules.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>

namespace paddleop::api {
namespace {

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool IsDnsLabel(std::string_view name) {
  if (name.empty() || !IsLowerOrDigit(name.front()) || !IsLowerOrDigit(name.back())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLowerOrDigit(c) || c == '-'; });
}

template <class T>
bool OneOf(const T& word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), std::string_view(word)) != words.end();
}

bool FitsName(const PaddleJob& job, const std::optional<JobRole>& role, std::string_view infix) {
  if (!role) return true;
  const std::int64_t last = static_cast<std::int64_t>(role->replicas) - 1;
  return job.metadata.name.size() + infix.size() + std::to_string(last).size() <= 63;
}

bool ReplicasInRange(const std::optional<JobRole>& role) {
  return !role || (role->replicas >= 0 && role->replicas <= kMaxReplicas);
}

bool HasContainers(const std::optional<JobRole>& role) {
  if (!role) return true;
  const auto json = ParseJson(role->pod_template.empty() ? "{}" : role->pod_template.text);
  if (!json || !json->is_object()) return false;
  const auto spec = json->find("spec");
  if (spec == json->end() || !spec->is_object()) return false;
  const auto containers = spec->find("containers");
  return containers != spec->end() && containers->is_array() && !containers->empty();
}

bool BoundsInOrder(const PaddleJob& job) {
  const auto& worker = job.spec.worker;
  if (!worker) return true;
  if (worker->requests && (*worker->requests < 0 || *worker->requests > kMaxReplicas)) return false;
  if (worker->limits && (*worker->limits < 0 || *worker->limits > kMaxReplicas)) return false;
  return !worker->requests || !worker->limits || *worker->limits == 0 ||
         *worker->requests <= *worker->limits;
}

std::int64_t TotalReplicas(const PaddleJob& job) {
  std::int64_t total = 0;
  for (const auto* role : {&job.spec.ps, &job.spec.worker, &job.spec.heter}) {
    if (*role) total += (*role)->replicas;
  }
  return total;
}

constexpr std::string_view kNameFormat =
    "metadata.name must consist of lower-case letters, digits and '-', and begin and end with a "
    "letter or digit: "
    "it becomes part of host names";
constexpr std::string_view kNameLength =
    "metadata.name is too long: names of pods are made of it, the role and an index, and end at 63 "
    "characters";
constexpr std::string_view kReplicas = "replicas must be from 0 to 10000";
constexpr std::string_view kContainers =
    "template.spec.containers must have at least one container";
constexpr std::string_view kReplicasCel = "self.replicas >= 0 && self.replicas <= 10000";
constexpr std::string_view kContainersCel =
    "has(self.template) && has(self.template.spec) && size(self.template.spec.containers) > 0";

constexpr auto kPaddleJobRules = std::to_array<Rule<PaddleJob>>({
    {"", "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", kNameFormat,
     [](const PaddleJob& j) { return IsDnsLabel(j.metadata.name); }},
    {"",
     "!has(self.spec) || !has(self.spec.intranet) || self.spec.intranet != 'Service' || "
     "self.metadata.name.matches('^[a-z]')",
     "metadata.name must begin with a letter when spec.intranet is Service: Services are named after it",
     [](const PaddleJob& j) {
       return !j.spec.IsService() || j.metadata.name.empty() ||
              (j.metadata.name[0] >= 'a' && j.metadata.name[0] <= 'z');
     }},
    {"",
     "!has(self.spec) || !has(self.spec.ps) || "
     "size(self.metadata.name) + 4 + size(string(self.spec.ps.replicas - 1)) <= 63",
     kNameLength, [](const PaddleJob& j) { return FitsName(j, j.spec.ps, "-ps-"); }},
    {"",
     "!has(self.spec) || !has(self.spec.worker) || "
     "size(self.metadata.name) + 8 + size(string(self.spec.worker.replicas - 1)) <= 63",
     kNameLength, [](const PaddleJob& j) { return FitsName(j, j.spec.worker, "-worker-"); }},
    {"",
     "!has(self.spec) || !has(self.spec.heter) || "
     "size(self.metadata.name) + 7 + size(string(self.spec.heter.replicas - 1)) <= 63",
     kNameLength, [](const PaddleJob& j) { return FitsName(j, j.spec.heter, "-heter-"); }},
    {"", "has(self.spec)", "spec is missing: describe at least spec.worker",
     [](const PaddleJob& j) { return !(j.spec == PaddleJobSpec()); }},
    {"spec",
     "(has(self.ps) ? self.ps.replicas : 0) + (has(self.worker) ? self.worker.replicas : 0) + "
     "(has(self.heter) ? self.heter.replicas : 0) > 0",
     "the job has no pods: set worker.replicas (a parameter-server job needs ps.replicas as well)",
     [](const PaddleJob& j) { return TotalReplicas(j) > 0; }},
    {"spec", "!has(self.elastic) || has(self.worker)", "an elastic job needs spec.worker",
     [](const PaddleJob& j) { return !j.spec.elastic || j.spec.worker; }},
    {"spec", "!has(self.intranet) || self.intranet in ['', 'PodIP', 'Service', 'Host']",
     "intranet must be PodIP (the default), Service or Host",
     [](const PaddleJob& j) { return OneOf(j.spec.intranet, {"", "PodIP", "Service", "Host"}); }},
    {"spec", "!has(self.withGloo) || (self.withGloo >= 0 && self.withGloo <= 2)",
     "withGloo must be 0 (off), 1 (workers) or 2 (workers and servers)",
     [](const PaddleJob& j) { return !j.spec.with_gloo || (*j.spec.with_gloo >= 0 && *j.spec.with_gloo <= 2); }},
    {"spec", "!has(self.backoffLimit) || self.backoffLimit >= 0", "backoffLimit must not be negative",
     [](const PaddleJob& j) { return j.spec.backoff_limit.value_or(0) >= 0; }},
    {"spec", "!has(self.activeDeadlineSeconds) || self.activeDeadlineSeconds >= 1",
     "activeDeadlineSeconds must be at least 1",
     [](const PaddleJob& j) { return j.spec.active_deadline_seconds.value_or(1) >= 1; }},
    {"spec", "!has(self.ttlSecondsAfterFinished) || self.ttlSecondsAfterFinished >= 0",
     "ttlSecondsAfterFinished must not be negative",
     [](const PaddleJob& j) { return j.spec.ttl_seconds_after_finished.value_or(0) >= 0; }},
    {"spec.ps", kReplicasCel, kReplicas, [](const PaddleJob& j) { return ReplicasInRange(j.spec.ps); }},
    {"spec.worker", kReplicasCel, kReplicas, [](const PaddleJob& j) { return ReplicasInRange(j.spec.worker); }},
    {"spec.heter", kReplicasCel, kReplicas, [](const PaddleJob& j) { return ReplicasInRange(j.spec.heter); }},
    {"spec.ps", kContainersCel, kContainers, [](const PaddleJob& j) { return HasContainers(j.spec.ps); }},
    {"spec.worker", kContainersCel, kContainers, [](const PaddleJob& j) { return HasContainers(j.spec.worker); }},
    {"spec.heter", kContainersCel, kContainers, [](const PaddleJob& j) { return HasContainers(j.spec.heter); }},
    {"spec.worker",
     "(!has(self.requests) || (self.requests >= 0 && self.requests <= 10000)) && "
     "(!has(self.limits) || (self.limits >= 0 && self.limits <= 10000)) && "
     "(!has(self.requests) || !has(self.limits) || self.limits == 0 || self.requests <= self.limits)",
     "requests and limits bound the number of workers of an elastic job: 0 <= requests <= limits <= 10000",
     BoundsInOrder},
    {"spec.sampleSetRef", "has(self.name) && size(self.name) > 0",
     "sampleSetRef.name must name a SampleSet in the job's namespace",
     [](const PaddleJob& j) { return !j.spec.sample_set_ref || !j.spec.sample_set_ref->name.empty(); }},
    {"spec.sampleSetRef", "self.mountPath.startsWith('/')", "sampleSetRef.mountPath must be an absolute path",
     [](const PaddleJob& j) {
       return !j.spec.sample_set_ref || j.spec.sample_set_ref->mount_path.starts_with('/');
     }},
    {"spec.sampleSetRef", "!has(self.affinity) || self.affinity in ['Required', 'Preferred', 'None']",
     "sampleSetRef.affinity must be Required (the default), Preferred or None",
     [](const PaddleJob& j) {
       return !j.spec.sample_set_ref || OneOf(j.spec.sample_set_ref->affinity, {"Required", "Preferred", "None"});
     }},
    {"spec.sampleSetRef", "!has(self.waitFor) || self.waitFor in ['Ready', 'Cached', 'None']",
     "sampleSetRef.waitFor must be Ready (the default), Cached or None",
     [](const PaddleJob& j) {
       return !j.spec.sample_set_ref || OneOf(j.spec.sample_set_ref->wait_for, {"Ready", "Cached", "None"});
     }},
    {"spec.sampleSetRef", "!has(self.affinityTimeoutSeconds) || self.affinityTimeoutSeconds >= 0",
     "sampleSetRef.affinityTimeoutSeconds must not be negative",
     [](const PaddleJob& j) {
       return !j.spec.sample_set_ref || j.spec.sample_set_ref->affinity_timeout_seconds >= 0;
     }},
});

bool Started(const SampleSet& set) { return !set.status.phase.empty(); }

bool IsRatio(const std::string& text) {
  if (text.empty() || text == "0") return true;
  if (text.size() < 3 || !text.starts_with("0.")) return false;
  return std::all_of(text.begin() + 2, text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool AllAbsolute(std::string_view paths) {
  while (true) {
    const auto colon = paths.find(':');
    if (!paths.substr(0, colon).starts_with('/')) return false;
    if (colon == std::string_view::npos) return true;
    paths.remove_prefix(colon + 1);
  }
}

constexpr auto kSampleSetRules = std::to_array<Rule<SampleSet>>({
    {"", "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", kNameFormat,
     [](const SampleSet& s) { return IsDnsLabel(s.metadata.name); }},
    {"", "size(self.metadata.name) <= 44",
     "metadata.name must have at most 44 characters: names of runtime pods and node labels are "
     "made of it",
     [](const SampleSet& s) { return s.metadata.name.size() <= 44; }},
    {"spec", "!has(self.partitions) || (self.partitions >= 1 && self.partitions <= 10000)",
     "partitions must be from 1 to 10000",
     [](const SampleSet& s) {
       return s.spec.partitions >= 1 && s.spec.partitions <= kMaxReplicas;
     }},
    {"spec",
     "(has(self.noSync) && self.noSync) || has(self.source) || (has(self.sources) && "
     "size(self.sources) > 0)",
     "spec.source.uri (or spec.sources) is needed, unless spec.noSync says that the volume has its "
     "data already",
     [](const SampleSet& s) { return s.spec.no_sync || !s.spec.AllSources().empty(); }},
    {"spec.source", "has(self.uri) && self.uri.contains('/')",
     "source.uri must look like bos://bucket.endpoint/prefix or file:///path",
     [](const SampleSet& s) {
       return !s.spec.source || s.spec.source->uri.find('/') != std::string::npos;
     }},
    {"spec.csi", "!has(self.driver) || self.driver in ['samplefs', 'juicefs']",
     "csi.driver must be samplefs (the default) or juicefs",
     [](const SampleSet& s) { return OneOf(s.spec.Driver(), {"samplefs", "juicefs"}); }},
    {"spec.csi.juiceFSMountOptions",
     "!has(self.free__dash__space__dash__ratio) || self.free__dash__space__dash__ratio in ['', "
     "'0'] || "
     "self.free__dash__space__dash__ratio.matches('^0[.][0-9]+$')",
     "free-space-ratio must be at least 0 and below 1, for example \"0.1\"",
     [](const SampleSet& s) {
       return !s.spec.csi || !s.spec.csi->mount_options ||
              IsRatio(s.spec.csi->mount_options->free_space_ratio);
     }},
    {"spec.cache",
     "!has(self.levels) || self.levels.all(l, !has(l.mediumType) || l.mediumType in ['MEM', 'SSD', "
     "'HDD'])",
     "mediumType of a cache level must be MEM, SSD or HDD",
     [](const SampleSet& s) {
       return std::all_of(s.spec.cache_levels.begin(), s.spec.cache_levels.end(), [](auto& l) {
         return l.medium_type.empty() || OneOf(l.medium_type, {"MEM", "SSD", "HDD"});
       });
     }},
    {"spec.cache",
     "!has(self.levels) || self.levels.all(l, has(l.path) && l.path.matches('^/[^:]*(:/[^:]*)*$'))",
     "path of a cache level must be an absolute path, or several separated by ':'",
     [](const SampleSet& s) {
       return std::all_of(s.spec.cache_levels.begin(), s.spec.cache_levels.end(),
                          [](auto& l) { return AllAbsolute(l.path); });
     }},
    {"spec.cache", "!has(self.levels) || self.levels.all(l, !has(l.cacheSize) || l.cacheSize >= 0)",
     "cacheSize of a cache level must not be negative (MiB)",
     [](const SampleSet& s) {
       return std::all_of(s.spec.cache_levels.begin(), s.spec.cache_levels.end(),
                          [](auto& l) { return l.cache_size >= 0; });
     }},
    {"spec.warmup", "!has(self.strategyName) || self.strategyName in ['sequence', 'random']",
     "warmup.strategyName must be sequence (the default) or random",
     [](const SampleSet& s) {
       return !s.spec.warmup || OneOf(s.spec.warmup->options.strategy_name, {"sequence", "random"});
     }},
    {"",
     "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == '' || "
     "(has(self.spec.csi) && has(self.spec.csi.driver) ? self.spec.csi.driver : 'samplefs') == "
     "(has(oldSelf.spec.csi) && has(oldSelf.spec.csi.driver) ? oldSelf.spec.csi.driver : "
     "'samplefs')",
     "csi.driver cannot change once the volume exists: create another SampleSet on the same volume",
     nullptr,
     [](const SampleSet& before, const SampleSet& after) {
       return !Started(before) || before.spec.Driver() == after.spec.Driver();
     }},
    {"",
     "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == '' || "
     "!has(oldSelf.spec.secretRef) || !has(oldSelf.spec.secretRef.name) || "
     "(has(self.spec.secretRef) && "
     "has(self.spec.secretRef.name) && self.spec.secretRef.name == oldSelf.spec.secretRef.name)",
     "secretRef cannot change once the volume exists: it says which volume it is", nullptr,
     [](const SampleSet& before, const SampleSet& after) {
       if (!Started(before) || !before.spec.secret_ref || before.spec.secret_ref->name.empty())
         return true;
       return after.spec.secret_ref && after.spec.secret_ref->name == before.spec.secret_ref->name;
     }},
    {"",
     "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == '' || "
     "(has(self.spec.cache) == has(oldSelf.spec.cache) && (!has(self.spec.cache) || "
     "self.spec.cache == oldSelf.spec.cache))",
     "cache cannot change once the volume exists: mounts keep the directories they began with; "
     "create another SampleSet on the same volume",
     nullptr,
     [](const SampleSet& before, const SampleSet& after) {
       return !Started(before) || before.spec.cache_levels == after.spec.cache_levels;
     }},
    {"",
     "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == '' || "
     "((has(self.spec.csi) && has(self.spec.csi.juiceFSMountOptions)) == (has(oldSelf.spec.csi) && "
     "has(oldSelf.spec.csi.juiceFSMountOptions)) && (!has(self.spec.csi) || "
     "!has(self.spec.csi.juiceFSMountOptions) || self.spec.csi.juiceFSMountOptions == "
     "oldSelf.spec.csi.juiceFSMountOptions))",
     "csi.juiceFSMountOptions cannot change once the volume exists: a PersistentVolume keeps its "
     "options; create another SampleSet on the same volume",
     nullptr,
     [](const SampleSet& before, const SampleSet& after) {
       const auto options = [](const SampleSet& s) {
         return s.spec.csi ? s.spec.csi->mount_options : std::nullopt;
       };
       return !Started(before) || options(before) == options(after);
     }},
});

constexpr auto kSampleJobRules = std::to_array<Rule<SampleJob>>({
    {"spec", "has(self.type) && self.type in ['sync', 'warmup', 'rmr', 'clear']",
     "type must be sync, warmup, rmr or clear",
     [](const SampleJob& j) { return OneOf(j.spec.type, {"sync", "warmup", "rmr", "clear"}); }},
    {"spec",
     "has(self.sampleSetRef) && has(self.sampleSetRef.name) && size(self.sampleSetRef.name) > 0",
     "sampleSetRef.name must name a SampleSet in the job's namespace",
     [](const SampleJob& j) { return !j.spec.sample_set.empty(); }},
    {"spec",
     "!has(self.type) || self.type != 'rmr' || (has(self.rmrOptions) && has(self.rmrOptions.paths) "
     "&& "
     "size(self.rmrOptions.paths) > 0)",
     "a job of type rmr needs rmrOptions.paths: what to remove, relative to the root of the data "
     "set",
     [](const SampleJob& j) {
       return j.spec.type != "rmr" || (j.spec.rmr_options && !j.spec.rmr_options->paths.empty());
     }},
    {"spec",
     "!has(self.concurrencyPolicy) || self.concurrencyPolicy in ['Allow', 'Forbid', 'Replace']",
     "concurrencyPolicy must be Allow (the default), Forbid or Replace",
     [](const SampleJob& j) {
       return OneOf(j.spec.concurrency_policy, {"Allow", "Forbid", "Replace"});
     }},
    {"spec", "!has(self.backoffLimit) || self.backoffLimit >= 0",
     "backoffLimit must not be negative",
     [](const SampleJob& j) { return j.spec.backoff_limit >= 0; }},
    {"spec", "!has(self.ttlSecondsAfterFinished) || self.ttlSecondsAfterFinished >= 0",
     "ttlSecondsAfterFinished must not be negative",
     [](const SampleJob& j) { return j.spec.ttl_seconds_after_finished.value_or(0) >= 0; }},
    {"spec",
     "(!has(self.successfulJobsHistoryLimit) || self.successfulJobsHistoryLimit >= 0) && "
     "(!has(self.failedJobsHistoryLimit) || self.failedJobsHistoryLimit >= 0)",
     "history limits must not be negative",
     [](const SampleJob& j) {
       return j.spec.successful_jobs_history_limit >= 0 && j.spec.failed_jobs_history_limit >= 0;
     }},
    {"spec.warmupOptions", "!has(self.strategyName) || self.strategyName in ['sequence', 'random']",
     "warmupOptions.strategyName must be sequence (the default) or random",
     [](const SampleJob& j) {
       return !j.spec.warmup_options ||
              OneOf(j.spec.warmup_options->strategy_name, {"sequence", "random"});
     }},
});

template <class T>
std::vector<Violation> Check(std::span<const Rule<T>> rules, const T* before, const T& after) {
  std::vector<Violation> violations;
  for (const auto& rule : rules) {
    const bool fine = rule.holds != nullptr ? rule.holds(after)
                                            : before == nullptr || rule.allows(*before, after);
    if (!fine) violations.push_back({std::string(rule.field), std::string(rule.message)});
  }
  return violations;
}

}  // namespace

std::span<const Rule<PaddleJob>> PaddleJobRules() { return kPaddleJobRules; }
std::span<const Rule<SampleSet>> SampleSetRules() { return kSampleSetRules; }
std::span<const Rule<SampleJob>> SampleJobRules() { return kSampleJobRules; }

std::vector<Violation> Validate(const PaddleJob& job) {
  return Check<PaddleJob>(kPaddleJobRules, nullptr, job);
}
std::vector<Violation> Validate(const SampleSet& set) {
  return Check<SampleSet>(kSampleSetRules, nullptr, set);
}
std::vector<Violation> Validate(const SampleJob& job) {
  return Check<SampleJob>(kSampleJobRules, nullptr, job);
}
std::vector<Violation> ValidateUpdate(const PaddleJob& before, const PaddleJob& after) {
  return Check<PaddleJob>(kPaddleJobRules, &before, after);
}
std::vector<Violation> ValidateUpdate(const SampleSet& before, const SampleSet& after) {
  return Check<SampleSet>(kSampleSetRules, &before, after);
}
std::vector<Violation> ValidateUpdate(const SampleJob& before, const SampleJob& after) {
  return Check<SampleJob>(kSampleJobRules, &before, after);
}

std::string Describe(const std::vector<Violation>& violations) {
  std::string out;
  for (const auto& violation : violations) {
    if (!out.empty()) out += "; ";
    if (!violation.field.empty()) out += violation.field + ": ";
    out += violation.message;
  }
  return out;
}

}  // namespace paddleop::api
