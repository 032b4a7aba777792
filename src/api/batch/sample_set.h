#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/batch/paddle_job.h"
#include "api/meta/condition.h"
#include "api/meta/object_meta.h"

namespace paddleop::api {

// Values of SampleSetStatus::phase. "" means nothing exists yet.
namespace set_phase {
inline constexpr std::string_view kBound = "Bound";
inline constexpr std::string_view kMount = "Mount";
inline constexpr std::string_view kSyncing = "Syncing";
inline constexpr std::string_view kSyncFailed = "SyncFailed";
inline constexpr std::string_view kPartialReady = "PartialReady";
inline constexpr std::string_view kReady = "Ready";
}  // namespace set_phase

namespace csi_driver {
inline constexpr std::string_view kSamplefs = "samplefs";
inline constexpr std::string_view kJuicefs = "juicefs";
}  // namespace csi_driver

struct SecretReference {
  std::string name;
  std::string ns;  // empty: that of the object that refers to it

  bool operator==(const SecretReference&) const = default;
};

struct SampleSource {
  std::string uri;
  std::optional<SecretReference> secret_ref;
  std::string path;  // where in the set; empty is its root

  bool operator==(const SampleSource&) const = default;
};

// Mount options under the names that `juicefs mount` has for them. Zero, false and empty mean not
// set.
struct MountOptions {
  std::string metrics;
  std::int32_t attr_cache = 0;
  std::int32_t entry_cache = 0;
  std::int32_t dir_entry_cache = 0;
  bool enable_xattr = false;
  std::int32_t get_timeout = 0;
  std::int32_t put_timeout = 0;
  std::int32_t io_retries = 0;
  std::int32_t max_uploads = 0;
  std::int32_t buffer_size = 0;
  std::int32_t prefetch = 0;
  bool writeback = false;
  std::string cache_dir;
  std::int64_t cache_size = 0;
  std::string free_space_ratio;
  bool cache_partial_only = false;
  std::int32_t open_cache = 0;
  std::string sub_dir;

  bool operator==(const MountOptions&) const = default;
};

struct CsiSpec {
  std::string driver = "samplefs";
  std::optional<MountOptions> mount_options;

  bool operator==(const CsiSpec&) const = default;
};

struct CacheLevel {
  std::string medium_type;      // MEM, SSD, HDD
  std::string path;             // colon-separated host directories
  std::int64_t cache_size = 0;  // MiB over all of them

  bool operator==(const CacheLevel&) const = default;
};

// How a warm-up spreads files over partitions; shared by SampleJob and the automatic warm-up of a
// set.
struct WarmupOptions {
  std::vector<std::string> paths;
  std::int32_t partitions = 0;  // set by the controller
  std::string strategy_name = "sequence";
  std::string file;
  std::int32_t threads = 0;
  std::optional<std::int32_t> batch_size;
  std::optional<bool> shuffle;
  std::optional<bool> drop_last;
  std::optional<std::int64_t> epoch;
  std::optional<std::int32_t> ranks;

  bool operator==(const WarmupOptions&) const = default;
};

struct SetWarmup {
  WarmupOptions options;
  bool automatic = false;  // `auto`: after every sync and after scaling

  bool operator==(const SetWarmup&) const = default;
};

struct SampleSetSpec {
  std::int32_t partitions = 1;
  std::optional<SampleSource> source;
  std::vector<SampleSource> sources;
  std::optional<SecretReference> secret_ref;
  bool no_sync = false;
  std::optional<CsiSpec> csi;
  std::vector<CacheLevel> cache_levels;
  RawJson node_affinity;  // core/v1 NodeAffinity
  RawJson tolerations;    // list of core/v1 Toleration
  std::optional<SetWarmup> warmup;

  std::string_view Driver() const;
  // `source` and `sources` as one list.
  std::vector<SampleSource> AllSources() const;
  bool operator==(const SampleSetSpec&) const = default;
};

struct CacheStatus {
  std::string total_size;
  std::string total_files;
  std::string cached_size;
  std::string disk_size;
  std::string disk_used;
  std::string disk_avail;
  std::string disk_usage_rate;
  std::string error_message;  // `errorMassage`: that spelling is part of the API
  std::string hit_ratio;
  std::string cached_percent;

  bool operator==(const CacheStatus&) const = default;
};

struct RuntimeStatus {
  std::string runtime_ready;  // "1/2"
  std::int32_t spec_replicas = 0;
  std::int32_t ready_replicas = 0;

  bool operator==(const RuntimeStatus&) const = default;
};

struct PartitionStatus {
  std::int32_t index = 0;
  std::string pod;
  std::string node;
  std::int64_t cached_bytes = 0;
  bool ready = false;
  std::string cache_id;  // of the directory: another one means that the cache was wiped

  bool operator==(const PartitionStatus&) const = default;
};

struct SampleSetStatus {
  std::string phase;
  std::optional<CacheStatus> cache_status;
  std::optional<RuntimeStatus> runtime_status;
  std::string sync_job_name;
  std::string sync_options;  // digest of what that job imports
  std::string warmup_job_name;
  std::vector<PartitionStatus> partitions;
  // Over how many partitions the cached data is spread; 0: not known to be cached.
  std::int32_t warmed_partitions = 0;
  // When the last warm-up of the set's own was begun.
  std::optional<Time> warmup_time;
  // Names in cluster scope, chosen before anything is created and read from here ever after.
  std::string volume_name;
  std::string node_label;
  std::int64_t observed_generation = 0;
  std::vector<Condition> conditions;

  bool operator==(const SampleSetStatus&) const = default;
};

// A data set: where it comes from, and how it is cached next to the workers.
struct SampleSet {
  static constexpr ResourceType kType{kBatchGroup, "v1alpha1", "samplesets", "SampleSet", true};

  ObjectMeta metadata;
  SampleSetSpec spec;
  SampleSetStatus status;

  static Result<SampleSet> FromJson(const Json& json);
  bool operator==(const SampleSet&) const = default;
};

Json ToJson(const SampleSet& set);
Json ToJson(const SampleSetStatus& status);

// paddlepaddle.org/juicefs-<name>: label of the set's objects and, unless another namespace has a
// set of that name, of its nodes (SampleSetStatus::node_label says which).
std::string SampleSetLabel(std::string_view set_name);
// <set>-runtime-<index>
std::string RuntimePodName(std::string_view set_name, std::int32_t index);

}  // namespace paddleop::api
