#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "samplefs/cache_flags.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

// The local cache, from counters. Looks only: nothing is made where there is no cache.
Result<std::unique_ptr<volume::DiskCache>> OpenCache(Tool& tool, const volume::Setting& setting,
                                                     const CacheFlags& flags) {
  ASSIGN_OR_RETURN(const auto options, flags.Options(true));
  volume::DiskCacheOptions found{.uuid = setting.uuid,
                                 .layout = setting.layout(),
                                 .directories = {},
                                 .recount_interval = std::chrono::seconds(0)};
  for (const auto& directory : options.directories) {
    if (::access((directory.path + "/" + setting.uuid).c_str(), F_OK) == 0)
      found.directories.push_back(directory);
  }
  if (found.directories.empty()) return nullptr;
  return volume::DiskCache::Open(tool.ctx(), found, tool.log(), tool.metrics());
}

double HitRatio(const volume::CacheTraffic& traffic) {
  const std::uint64_t reads = traffic.hits + traffic.misses;
  return reads == 0 ? 0 : static_cast<double>(traffic.hits) / static_cast<double>(reads);
}

nlohmann::json CacheJson(volume::DiskCache& cache) {
  const auto traffic = cache.Traffic();
  nlohmann::json out = {{"hits", traffic.hits},
                        {"misses", traffic.misses},
                        {"hitBytes", traffic.hit_bytes},
                        {"missBytes", traffic.miss_bytes},
                        {"hitRatio", HitRatio(traffic)},
                        {"corruptFiles", traffic.corrupt},
                        {"evictedBlocks", traffic.evicted},
                        {"directories", nlohmann::json::array()}};
  std::uint64_t cached = 0, pinned = 0;
  for (const auto& status : cache.Status()) {
    cached += status.bytes;
    pinned += status.pinned_bytes;
    out["directories"].push_back({{"path", status.directory.path},
                                  {"level", status.directory.level},
                                  {"capacity", status.directory.capacity},
                                  {"usable", status.usable},
                                  {"admitting", status.admitting},
                                  {"problem", status.problem},
                                  {"blocks", status.blocks},
                                  {"partialBlocks", status.part_blocks},
                                  {"bytes", status.bytes},
                                  {"pinnedBytes", status.pinned_bytes},
                                  {"diskTotal", status.disk_total},
                                  {"diskFree", status.disk_free}});
  }
  out["cachedBytes"] = cached;
  out["pinnedBytes"] = pinned;
  return out;
}

void PrintCache(Tool& tool, volume::DiskCache& cache) {
  for (const auto& status : cache.Status()) {
    tool.Print(fmt::format("cache        {}: {} in {} blocks, {} pinned, disk {} free of {}",
                           status.directory.path, FormatSize(status.bytes),
                           FormatCount(status.blocks + status.part_blocks),
                           FormatSize(status.pinned_bytes), FormatSize(status.disk_free),
                           FormatSize(status.disk_total)));
    if (!status.problem.empty()) tool.Print(fmt::format("             {}", status.problem));
  }
  const auto traffic = cache.Traffic();
  tool.Print(fmt::format("hits         {:.1f} % of {} reads", 100 * HitRatio(traffic),
                         FormatCount(traffic.hits + traffic.misses)));
}

int RunStatus(Tool& tool, const CacheFlags& flags) {
  if (tool.IsPath()) return PrintMountStatus(tool);
  auto opened = tool.OpenVolume({.read_only = true, .memory_cache_bytes = 0});
  if (!opened) return tool.Fail(opened.error());
  volume::Volume& volume = **opened;
  auto cache = OpenCache(tool, volume.setting(), flags);
  if (!cache) return tool.Fail(cache.error());
  auto usage = volume.meta().GetStatFs(tool.ctx());
  if (!usage) return tool.Fail(usage.error());
  auto sessions = volume.meta().ListSessions(tool.ctx());
  if (!sessions) return tool.Fail(sessions.error());

  if (tool.json) {
    nlohmann::json out = {{"setting", nlohmann::json::parse(volume.setting().ToPublicJson())},
                          {"usedSpace", usage->used_space},
                          {"usedInodes", usage->used_inodes},
                          {"availableSpace", usage->available_space},
                          {"availableInodes", usage->available_inodes},
                          {"sessions", nlohmann::json::array()}};
    for (const auto& session : *sessions) {
      auto info = nlohmann::json::parse(session.info_json, nullptr, false);
      out["sessions"].push_back({{"sid", session.sid},
                                 {"expires", session.expires},
                                 {"info", info.is_discarded() ? nlohmann::json() : info}});
    }
    out["cache"] = *cache ? CacheJson(**cache) : nlohmann::json();
    tool.PrintJson(out);
    return kExitDone;
  }
  const auto& setting = volume.setting();
  tool.Print(fmt::format("volume       {} ({})", setting.name, setting.uuid));
  tool.Print(fmt::format("storage      {} at {}", setting.storage, RedactUrl(setting.bucket)));
  tool.Print(fmt::format("blocks       {}, compression {}",
                         FormatSize(std::uint64_t{setting.block_size_kib} << 10),
                         setting.compression.empty() ? "none" : setting.compression));
  tool.Print(fmt::format("trash        {} days", setting.trash_days));
  tool.Print(fmt::format("used         {} in {} inodes", FormatSize(usage->used_space),
                         FormatCount(usage->used_inodes)));
  tool.Print(fmt::format("available    {}", FormatSize(usage->available_space)));
  tool.Print(fmt::format("clients      {}", sessions->size()));
  if (*cache) PrintCache(tool, **cache);
  return kExitDone;
}

}  // namespace

void AddStatus(Command& program, Tool& tool) {
  auto flags = std::make_shared<CacheFlags>();
  Command command =
      program.AddCommand("status", "show a volume's setting, usage, clients and local cache",
                         [flags, &tool] { return RunStatus(tool, *flags); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL or mount point");
  flags->Add(command);
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
