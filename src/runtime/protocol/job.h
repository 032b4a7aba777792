// Jobs as controllers and Cache Runtime Servers speak of them: what to do, how far it is, how it
// ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/batch/sample_job.h"
#include "api/meta/json.h"
#include "api/meta/time.h"
#include "base/secret.h"
#include "base/status.h"

namespace paddleop::runtime {

enum class JobKind { kSync, kWarmup, kClear, kRmr };

// "sync", "warmup", "clear", "rmr", as in SampleJobSpec::type.
std::string_view KindName(JobKind kind);
Result<JobKind> ParseKind(std::string_view name);

// How to get at a source. Travels in requests and stays in memory: never written, never answered.
struct SourceCredentials {
  std::string access_key;
  Secret secret_key;
  Secret session_token;

  bool empty() const { return access_key.empty() && secret_key.empty() && session_token.empty(); }
  bool operator==(const SourceCredentials&) const = default;
};

// One place to import from.
struct JobSource {
  std::string uri;   // without keys in it
  std::string path;  // where in the set, relative to its root; empty is the root
  SourceCredentials credentials;

  bool operator==(const JobSource&) const = default;
};

// The share of one partition. Runtime 0 sets it when it spreads a job; controllers leave it out.
struct JobPart {
  std::uint32_t index = 0;
  std::uint32_t count = 1;

  bool operator==(const JobPart&) const = default;
};

// A job as it is posted. `name` is its identity: posting a name again changes nothing, except that
// it brings the credentials back to a job that lost them with a restart.
struct JobRequest {
  JobKind kind = JobKind::kSync;
  std::string name;           // a UUID in lower case
  api::SyncOptions sync;      // kSync; source and destination are in `sources`
  api::WarmupOptions warmup;  // kWarmup
  api::PathOptions paths;     // kClear, kRmr
  // kSync: at least one. Options apply to each of them.
  std::vector<JobSource> sources;
  std::optional<JobPart> part;

  bool operator==(const JobRequest&) const = default;
};

// kInvalid names the field: options of another kind, no source, a path that leaves the set, too
// many of something. What needs the volume to be known is found when the job runs.
Result<void> Validate(const JobRequest& request);

// kInvalid if `path` is not one below the root of the set: absolute, empty parts, ".", "..", NUL.
// `field` begins the message.
Result<void> CheckSetPath(std::string_view path, std::string_view field);

inline constexpr std::size_t kMaxPaths = 10'000;
inline constexpr std::size_t kMaxPathBytes = 4096;
inline constexpr std::size_t kMaxSources = 64;

// The body of a POST. With credentials: for the wire only.
api::Json ToJson(const JobRequest& request);
// Without credentials: for journals and answers.
api::Json ToPublicJson(const JobRequest& request);
// `kind` and `name` come from the path and the header of the request.
Result<JobRequest> JobRequestFromJson(const api::Json& json, JobKind kind, std::string name);

enum class JobState {
  kQueued,
  kRunning,
  // The runtime restarted and has no keys for the source: post the job again, with them.
  kNeedsCredentials,
  kSucceeded,
  kFailed,
  kCancelled,
};

std::string_view StateName(JobState state);
Result<JobState> ParseState(std::string_view name);
inline bool Finished(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

struct JobProgress {
  api::ProgressCount files;
  api::ProgressCount bytes;
  double bytes_per_second = 0;
  std::optional<std::int64_t> eta_seconds;

  bool operator==(const JobProgress&) const = default;
};

// As the SampleJob's status prints it: "120 MiB/s", "3m20s", "42%".
api::SampleJobProgress ForStatus(const JobProgress& progress);
// The sum, as if the parts were one job.
JobProgress Merge(const std::vector<JobProgress>& parts);

struct FailedFile {
  std::string path;
  std::string reason;

  bool operator==(const FailedFile&) const = default;
};
inline constexpr std::size_t kMaxFailedFiles = 100;  // named; all are counted

struct PartResult {
  std::uint32_t index = 0;
  JobState state = JobState::kQueued;
  std::string message;
  JobProgress progress;

  bool operator==(const PartResult&) const = default;
};

// GET .../<kind>Result/<name>. On the wire `status` is "running", "success" or "fail", as the
// first runtime servers had it, beside the finer `state`.
struct JobResult {
  std::string name;
  JobKind kind = JobKind::kSync;
  JobState state = JobState::kQueued;
  std::string message;  // why it failed, or what happened
  JobProgress progress;
  std::vector<PartResult> parts;  // of a job that was spread
  std::vector<FailedFile> failed_files;
  std::optional<api::Time> start_time;
  std::optional<api::Time> end_time;
  std::uint32_t runs = 0;  // how often it was begun: more than 1 after a restart

  bool operator==(const JobResult&) const = default;
};

api::Json ToJson(const JobResult& result);
Result<JobResult> JobResultFromJson(const api::Json& json);

}  // namespace paddleop::runtime
