#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "controllers/sampleset/pass.h"

namespace paddleop::controllers::sampleset {
namespace {

std::string Percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "100%";
  // 100% only when nothing is missing: jobs wait for it.
  const auto percent = std::min<std::uint64_t>(part * 100 / whole, part >= whole ? 100 : 99);
  return fmt::format("{}%", percent);
}

const api::PartitionStatus* Before(const Pass& pass, std::int32_t index) {
  for (const auto& partition : pass.set.status.partitions) {
    if (partition.index == index) return &partition;
  }
  return nullptr;
}

// A partition whose cache is another one than before has lost what it had: a wiped directory, or a
// new node.
void NoteLostCache(Pass& pass, const RuntimeSeen& runtime, const std::string& cache_id) {
  const api::PartitionStatus* before = Before(pass, runtime.index);
  if (before == nullptr || before->cache_id.empty() || cache_id.empty() ||
      before->cache_id == cache_id) {
    return;
  }
  auto& status = pass.plan.status;
  // A warm-up that runs may have been there before; so may an import, see Succeed().
  if (pass.ReasonOf(condition::kWarmed) == "Running")
    pass.plan.cancel.push_back(status.warmup_job_name);
  status.warmed_partitions = 0;
  pass.Say(condition::kWarmed, false, kCacheLost,
           fmt::format("the cache of partition {} is new; the data is cached again", runtime.index),
           true);
}

// A pod that is being replaced leaves its partition for a moment. It stays known, with its cache:
// who comes next may find another one.
void KeepAbsent(const Pass& pass, std::vector<api::PartitionStatus>& partitions) {
  for (const auto& before : pass.set.status.partitions) {
    if (before.index >= pass.set.spec.partitions ||
        std::ranges::find(partitions, before.index, &api::PartitionStatus::index) !=
            partitions.end()) {
      continue;
    }
    partitions.push_back(before);
    partitions.back().ready = false;
  }
  std::ranges::sort(partitions, {}, &api::PartitionStatus::index);
}

struct Totals {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
};

// Runtime 0 looks when a job has ended, the others a little later. While it does not answer, or has
// just been started, the others know better.
Totals TotalsOf(const Pass& pass) {
  Totals most;
  for (const auto& runtime : pass.seen.runtimes) {
    if (!runtime.info || !runtime.info->ready || !runtime.info->totals_known) continue;
    const auto& info = *runtime.info;
    if (runtime.index == 0) return {info.total_size, info.total_files};
    most.bytes = std::max(most.bytes, info.total_size);
    most.files = std::max(most.files, info.total_files);
  }
  return most;
}

}  // namespace

void ReportCache(Pass& pass) {
  auto& status = pass.plan.status;
  std::vector<api::PartitionStatus> partitions;
  std::vector<std::string> errors;
  const auto [total, files] = TotalsOf(pass);
  std::uint64_t cached = 0, size = 0, used = 0, avail = 0;
  std::uint64_t local = 0, reads = 0;
  bool any = false;
  for (const auto& runtime : pass.seen.runtimes) {
    api::PartitionStatus partition{.index = runtime.index,
                                   .pod = runtime.pod->metadata.name,
                                   .node = runtime.pod->node_name,
                                   .cached_bytes = 0,
                                   .ready = IsServing(runtime) && runtime.pod->ready,
                                   .cache_id = {}};
    const api::PartitionStatus* before = Before(pass, runtime.index);
    if (before != nullptr) {
      partition.cached_bytes = before->cached_bytes;
      partition.cache_id = before->cache_id;
    }
    if (runtime.info) {
      const auto& info = *runtime.info;
      partition.cached_bytes = static_cast<std::int64_t>(info.cached_size);
      NoteLostCache(pass, runtime, info.cache_id);
      if (!info.cache_id.empty()) partition.cache_id = info.cache_id;
      if (!info.message.empty())
        errors.push_back(fmt::format("{}: {}", partition.pod, info.message));
      any = any || (info.ready && info.totals_known);
      cached += info.cached_size;
      size += info.disk_size;
      used += info.disk_used;
      avail += info.disk_avail;
      local += info.reads.local;
      reads += info.reads.local + info.reads.peer + info.reads.store;
    } else if (!runtime.error.empty() && partition.ready) {
      errors.push_back(fmt::format("{}: {}", partition.pod, runtime.error));
    }
    partitions.push_back(std::move(partition));
  }
  KeepAbsent(pass, partitions);
  status.partitions = std::move(partitions);
  if (!any) {
    // Nobody knows better: what was last known stays, and says why it is old.
    if (status.cache_status)
      status.cache_status->error_message = fmt::format("{}", fmt::join(errors, "; "));
    return;
  }
  cached = std::min(cached, total);
  api::CacheStatus now;
  now.total_size = FormatSize(total);
  now.total_files = FormatCount(files);
  now.cached_size = FormatSize(cached);
  now.disk_size = FormatSize(size);
  now.disk_used = FormatSize(used);
  now.disk_avail = FormatSize(avail);
  now.disk_usage_rate = fmt::format(
      "{:.1f}%", size == 0 ? 0.0 : 100.0 * static_cast<double>(used) / static_cast<double>(size));
  now.error_message = fmt::format("{}", fmt::join(errors, "; "));
  now.cached_percent = Percent(cached, total);
  if (reads > 0) now.hit_ratio = Percent(local, reads);
  status.cache_status = std::move(now);
}

}  // namespace paddleop::controllers::sampleset
