#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta/condition.h"
#include "api/meta/object_meta.h"

namespace paddleop::api {

inline constexpr std::string_view kBatchGroup = "batch.paddlepaddle.org";

// Values of PaddleJobSpec::intranet; empty means PodIP.
namespace intranet {
inline constexpr std::string_view kPodIp = "PodIP";
inline constexpr std::string_view kService = "Service";
inline constexpr std::string_view kHost = "Host";
}  // namespace intranet

// Values of PaddleJobStatus::phase. "" means not seen by the controller yet.
namespace job_phase {
inline constexpr std::string_view kPending = "Pending";
inline constexpr std::string_view kStarting = "Starting";
inline constexpr std::string_view kRunning = "Running";
inline constexpr std::string_view kRestarting = "Restarting";
inline constexpr std::string_view kScaling = "Scaling";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kCompleted = "Completed";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kTerminating = "Terminating";
}  // namespace job_phase

namespace job_mode {
inline constexpr std::string_view kPs = "PS";
inline constexpr std::string_view kCollective = "Collective";
inline constexpr std::string_view kSingle = "Single";
}  // namespace job_mode

struct SchedulingPolicy {
  std::optional<std::int32_t> min_available;
  std::string queue;
  std::string priority_class;
  StringMap min_resources;  // resource name to quantity

  bool operator==(const SchedulingPolicy&) const = default;
};

struct SampleSetRef {
  enum class Affinity { kRequired, kPreferred, kNone };
  enum class WaitFor { kReady, kCached, kNone };

  std::string name;
  std::string ns;  // empty: the job's; no other is possible, as a claim cannot cross namespaces
  std::string mount_path;
  bool read_only = true;
  std::string affinity = "Required";
  std::int32_t affinity_timeout_seconds = 300;
  std::string wait_for = "Ready";

  // Unknown words act as the default; validation reports them.
  Affinity AffinityKind() const;
  WaitFor WaitForKind() const;
  bool operator==(const SampleSetRef&) const = default;
};

// One role: how many pods of which template.
struct JobRole {
  std::int32_t replicas = 0;
  std::optional<std::int32_t> requests;  // elastic: fewest workers
  std::optional<std::int32_t> limits;    // elastic: most workers
  RawJson pod_template;                  // core/v1 PodTemplateSpec

  bool operator==(const JobRole&) const = default;
};

struct PaddleJobSpec {
  enum class CleanPolicy { kOnCompletion, kAlways, kNever, kOnFailure };

  std::string clean_pod_policy;
  std::string clean_policy;  // alias that users have in their files
  std::string intranet;
  std::optional<std::int32_t> with_gloo;
  std::optional<std::int32_t> elastic;  // any value turns elastic mode on
  std::optional<SchedulingPolicy> scheduling_policy;
  std::optional<SampleSetRef> sample_set_ref;
  std::optional<JobRole> ps;
  std::optional<JobRole> worker;
  std::optional<JobRole> heter;
  bool suspend = false;
  std::optional<std::int32_t> backoff_limit;  // absent: 0, or without limit in elastic mode
  std::optional<std::int64_t> active_deadline_seconds;
  std::optional<std::int32_t> ttl_seconds_after_finished;

  // The policy in force. Empty is OnCompletion; an unknown word acts as Never, as it always has.
  CleanPolicy Cleaning() const;
  // The word the user wrote (cleanPodPolicy wins over cleanPolicy).
  const std::string& CleaningWord() const;
  // False for words that act as Never only because nobody knows them.
  bool CleaningWordKnown() const;
  bool IsService() const { return intranet == intranet::kService; }
  bool IsHost() const { return intranet == intranet::kHost; }
  // PS with parameter servers, Collective with more than one worker, else Single.
  std::string_view Mode() const;

  bool operator==(const PaddleJobSpec&) const = default;
};

struct JobRoleStatus {
  std::int32_t pending = 0;
  std::int32_t starting = 0;
  std::int32_t running = 0;
  std::int32_t failed = 0;
  std::int32_t succeeded = 0;
  std::int32_t unknown = 0;
  std::vector<ObjectReference>
      refs;  // without resourceVersion, so that they change only with the pods

  bool operator==(const JobRoleStatus&) const = default;
};

struct PaddleJobStatus {
  std::string phase;
  std::string mode;
  std::optional<JobRoleStatus> ps;
  std::optional<JobRoleStatus> worker;
  std::optional<JobRoleStatus> heter;
  std::string elastic;
  std::optional<Time> start_time;
  std::optional<Time> completion_time;
  std::int64_t observed_generation = 0;
  std::vector<Condition> conditions;
  // Pods and ConfigMap of another gang number are remnants of an earlier start and are removed.
  std::int32_t gang = 0;
  std::int32_t failures = 0;
  std::optional<Time> last_failure_time;
  // Workers whose cache affinity was relaxed from required to preferred.
  std::vector<std::int32_t> relaxed_workers;

  bool Finished() const { return phase == job_phase::kCompleted || phase == job_phase::kFailed; }
  bool operator==(const PaddleJobStatus&) const = default;
};

// A distributed training job.
struct PaddleJob {
  static constexpr ResourceType kType{kBatchGroup, "v1", "paddlejobs", "PaddleJob", true};

  ObjectMeta metadata;
  PaddleJobSpec spec;
  PaddleJobStatus status;

  // kInvalid names the field that has a wrong type.
  static Result<PaddleJob> FromJson(const Json& json);
  bool operator==(const PaddleJob&) const = default;
};

Json ToJson(const PaddleJob& job);
Json ToJson(const PaddleJobStatus& status);

}  // namespace paddleop::api
