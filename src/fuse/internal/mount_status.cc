#include "fuse/internal/mount_status.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/secret.h"

namespace paddleop::fuse {
namespace {

std::int64_t Seconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

nlohmann::json CacheJson(volume::DiskCache& cache) {
  nlohmann::json directories = nlohmann::json::array();
  for (const auto& status : cache.Status()) {
    directories.push_back({{"path", status.directory.path},
                           {"usable", status.usable},
                           {"admitting", status.admitting},
                           {"problem", status.problem},
                           {"blocks", status.blocks},
                           {"bytes", status.bytes},
                           {"pinnedBytes", status.pinned_bytes},
                           {"capacity", status.directory.capacity},
                           {"diskFree", status.disk_free}});
  }
  const auto traffic = cache.Traffic();
  return {{"directories", directories},      {"hits", traffic.hits},
          {"hitBytes", traffic.hit_bytes},   {"misses", traffic.misses},
          {"missBytes", traffic.miss_bytes}, {"corrupt", traffic.corrupt},
          {"evicted", traffic.evicted}};
}

}  // namespace

std::string MountStatus::Json() const {
  nlohmann::json out = {{"volume", volume_.setting().name},
                        {"uuid", volume_.setting().uuid},
                        {"metadata", RedactUrl(options_.meta_url)},
                        {"mountPoint", options_.session.mount_point},
                        {"mode", data_ != nullptr ? "data-set" : "general"},
                        {"pid", ::getpid()},
                        {"started", Seconds(started_)},
                        {"requests", stats_.total()},
                        {"errors", stats_.errors()},
                        {"bytesRead", stats_.bytes_read()},
                        {"bytesWritten", stats_.bytes_written()}};
  nlohmann::json operations = nlohmann::json::object();
  for (std::size_t i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    if (stats_.count(op) > 0) operations[std::string(OpName(op))] = stats_.count(op);
  }
  out["operations"] = std::move(operations);
  if (data_ != nullptr) {
    const auto status = data_->Status();
    out["dataSet"] = {{"inodes", status.inodes},
                      {"treeBytes", status.tree_bytes},
                      {"loaded", Seconds(status.loaded)},
                      {"refreshes", status.refreshes},
                      {"prefetch",
                       {{"blocks", status.prefetched},
                        {"useful", status.prefetch_useful},
                        {"wasted", status.prefetch_wasted},
                        {"window", status.prefetch_window}}}};
    if (keeper_ != nullptr) {
      const PageKeeperStatus pages = keeper_->Status();
      out["dataSet"]["pages"] = {{"oneIn", pages.period},
                                 {"droppedFiles", pages.dropped_files},
                                 {"droppedBytes", pages.dropped_bytes}};
    }
  }
  if (volume_.disk_cache() != nullptr) out["cache"] = CacheJson(*volume_.disk_cache());
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace paddleop::fuse
