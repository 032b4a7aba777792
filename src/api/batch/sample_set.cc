#include "api/batch/sample_set.h"

#include "api/batch/internal/object.h"
#include "api/batch/internal/set_fields.h"

namespace paddleop::api {

template <class Io>
void Describe(Io& io, SampleSource& s) {
  io("uri", s.uri);
  io("secretRef", s.secret_ref);
  io("path", s.path);
}

template <class Io>
void Describe(Io& io, MountOptions& o) {
  io("metrics", o.metrics);
  io("attr-cache", o.attr_cache);
  io("entry-cache", o.entry_cache);
  io("dir-entry-cache", o.dir_entry_cache);
  io("enable-xattr", o.enable_xattr);
  io("get-timeout", o.get_timeout);
  io("put-timeout", o.put_timeout);
  io("io-retries", o.io_retries);
  io("max-uploads", o.max_uploads);
  io("buffer-size", o.buffer_size);
  io("prefetch", o.prefetch);
  io("writeback", o.writeback);
  io("cache-dir", o.cache_dir);
  io("cache-size", o.cache_size);
  io("free-space-ratio", o.free_space_ratio);
  io("cache-partial-only", o.cache_partial_only);
  io("open-cache", o.open_cache);
  io("sub-dir", o.sub_dir);
}

template <class Io>
void Describe(Io& io, CsiSpec& c) {
  io.Default("driver", c.driver, std::string(csi_driver::kSamplefs));
  io("juiceFSMountOptions", c.mount_options);
}

template <class Io>
void Describe(Io& io, CacheLevel& l) {
  io("mediumType", l.medium_type);
  io("path", l.path);
  io("cacheSize", l.cache_size);
}

template <class Io>
void Describe(Io& io, SetWarmup& w) {
  io.Inline(w.options);
  io("auto", w.automatic);
}

template <class Io>
void Describe(Io& io, SampleSetSpec& s) {
  io.Default("partitions", s.partitions, 1);
  io("source", s.source);
  io("sources", s.sources);
  io("secretRef", s.secret_ref);
  io("noSync", s.no_sync);
  io("csi", s.csi);
  io.Nested("cache", "levels", s.cache_levels);
  io("nodeAffinity", s.node_affinity);
  io("tolerations", s.tolerations);
  io("warmup", s.warmup);
}

template <class Io>
void Describe(Io& io, CacheStatus& s) {
  io("totalSize", s.total_size);
  io("totalFiles", s.total_files);
  io("cachedSize", s.cached_size);
  io("diskSize", s.disk_size);
  io("diskUsed", s.disk_used);
  io("diskAvail", s.disk_avail);
  io("diskUsageRate", s.disk_usage_rate);
  io("errorMassage", s.error_message);
  io("hitRatio", s.hit_ratio);
  io("cachedPercent", s.cached_percent);
}

template <class Io>
void Describe(Io& io, RuntimeStatus& s) {
  io("runtimeReady", s.runtime_ready);
  io("specReplicas", s.spec_replicas);
  io("readyReplicas", s.ready_replicas);
}

template <class Io>
void Describe(Io& io, PartitionStatus& s) {
  io.Required("index", s.index);
  io("pod", s.pod);
  io("node", s.node);
  io("cachedBytes", s.cached_bytes);
  io("ready", s.ready);
  io("cacheID", s.cache_id);
}

template <class Io>
void Describe(Io& io, SampleSetStatus& s) {
  io("phase", s.phase);
  io("cacheStatus", s.cache_status);
  io("runtimeStatus", s.runtime_status);
  io.Nested("jobsName", "syncJobName", s.sync_job_name);
  io.Nested("jobsName", "syncOptions", s.sync_options);
  io.Nested("jobsName", "warmupJobName", s.warmup_job_name);
  io("partitions", s.partitions);
  io("warmedPartitions", s.warmed_partitions);
  io("warmupTime", s.warmup_time);
  io("volumeName", s.volume_name);
  io("nodeLabel", s.node_label);
  io("observedGeneration", s.observed_generation);
  io("conditions", s.conditions);
}

std::string_view SampleSetSpec::Driver() const {
  return csi ? std::string_view(csi->driver) : csi_driver::kSamplefs;
}

std::vector<SampleSource> SampleSetSpec::AllSources() const {
  std::vector<SampleSource> all;
  if (source) all.push_back(*source);
  all.insert(all.end(), sources.begin(), sources.end());
  return all;
}

Result<SampleSet> SampleSet::FromJson(const Json& json) {
  return internal::ReadObject<SampleSet>(json);
}
Json ToJson(const SampleSet& set) { return internal::WriteObject(set); }
Json ToJson(const SampleSetStatus& status) { return internal::Write(status); }

std::string SampleSetLabel(std::string_view set_name) {
  return fmt::format("paddlepaddle.org/juicefs-{}", set_name);
}

std::string RuntimePodName(std::string_view set_name, std::int32_t index) {
  return fmt::format("{}-runtime-{}", set_name, index);
}

template Result<SampleSet> ParseAs<SampleSet>(std::string_view);

}  // namespace paddleop::api
