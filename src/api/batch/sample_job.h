#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/batch/sample_set.h"

namespace paddleop::api {

// Values of SampleJobStatus::phase. "" means not posted yet.
namespace data_phase {
inline constexpr std::string_view kPending = "Pending";
inline constexpr std::string_view kRunning = "Running";
inline constexpr std::string_view kSucceeded = "Succeeded";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kScheduled = "Scheduled";
}  // namespace data_phase

// Options of `sync` under the names that `juicefs sync` has for them.
struct SyncOptions {
  std::string source;
  std::string destination;
  std::string start;
  std::string end;
  std::int32_t threads = 0;
  std::int32_t http_port = 0;
  bool update = false;
  bool force_update = false;
  bool perms = false;
  bool dirs = false;
  bool dry = false;
  bool delete_src = false;
  bool delete_dst = false;
  std::string exclude;
  std::string include;
  std::string manager;
  std::string worker;
  std::int32_t bwlimit = 0;
  bool no_https = false;

  bool operator==(const SyncOptions&) const = default;
};

struct PathOptions {
  std::vector<std::string> paths;

  bool operator==(const PathOptions&) const = default;
};

struct SampleJobSpec {
  std::string type;  // sync, warmup, rmr, clear
  std::string sample_set;
  std::optional<SecretReference> secret_ref;
  bool terminate = false;
  std::optional<SyncOptions> sync_options;
  std::optional<WarmupOptions> warmup_options;
  std::optional<PathOptions> rmr_options;
  std::optional<PathOptions> clear_options;

  // A job with a schedule runs nothing itself; it creates SampleJobs, as a CronJob creates Jobs.
  std::string schedule;
  std::string time_zone;
  bool suspend = false;
  std::string concurrency_policy = "Allow";
  std::optional<std::int64_t> starting_deadline_seconds;
  std::int32_t successful_jobs_history_limit = 3;
  std::int32_t failed_jobs_history_limit = 1;

  std::optional<std::int32_t> ttl_seconds_after_finished;
  std::int32_t backoff_limit = 0;

  bool operator==(const SampleJobSpec&) const = default;
};

struct ProgressCount {
  std::int64_t total = 0;
  std::int64_t done = 0;
  std::int64_t skipped = 0;
  std::int64_t failed = 0;

  bool operator==(const ProgressCount&) const = default;
};

struct SampleJobProgress {
  ProgressCount files;
  ProgressCount bytes;
  std::string rate;     // "120 MiB/s"
  std::string eta;      // "3m20s"
  std::string percent;  // "42%"

  bool operator==(const SampleJobProgress&) const = default;
};

struct SampleJobStatus {
  std::string phase;
  std::string job_name;  // the UUID under which the runtime servers know it
  std::int32_t attempt = 0;
  std::optional<SampleJobProgress> progress;
  std::optional<Time> start_time;
  std::optional<Time> completion_time;
  std::string message;
  std::vector<ObjectReference> active;
  std::optional<Time> last_schedule_time;
  std::optional<Time> last_successful_time;
  std::int64_t observed_generation = 0;
  std::vector<Condition> conditions;

  bool Finished() const { return phase == data_phase::kSucceeded || phase == data_phase::kFailed; }
  bool operator==(const SampleJobStatus&) const = default;
};

// Work on the data of a SampleSet, once or by schedule.
struct SampleJob {
  static constexpr ResourceType kType{kBatchGroup, "v1alpha1", "samplejobs", "SampleJob", true};

  ObjectMeta metadata;
  SampleJobSpec spec;
  SampleJobStatus status;

  static Result<SampleJob> FromJson(const Json& json);
  bool operator==(const SampleJob&) const = default;
};

Json ToJson(const SampleJob& job);
Json ToJson(const SampleJobSpec& spec);
Json ToJson(const SampleJobStatus& status);

// The option objects alone, as the runtime protocol carries them.
Json ToJson(const SyncOptions& options);
Json ToJson(const WarmupOptions& options);
Json ToJson(const PathOptions& options);
Result<SyncOptions> SyncOptionsFromJson(const Json& json);
Result<WarmupOptions> WarmupOptionsFromJson(const Json& json);
Result<PathOptions> PathOptionsFromJson(const Json& json);

}  // namespace paddleop::api
