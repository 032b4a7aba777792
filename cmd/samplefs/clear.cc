#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "samplefs/cache_flags.h"
#include "samplefs/tool.h"
#include "volume/data/warmup.h"

namespace paddleop::cmd {
namespace {

struct ClearFlags {
  CacheFlags cache;
  std::vector<std::string> paths;
  std::string plan;
};

Result<volume::DiskCache::Removed> Clear(Tool& tool, volume::Volume& volume,
                                         const ClearFlags& flags) {
  if (volume.disk_cache() == nullptr)
    return paddleop::Fail(Code::kInvalid, "there is no cache directory; give --cache-dir");
  if (!flags.plan.empty()) return volume.disk_cache()->Unpin(tool.ctx(), flags.plan);
  if (flags.paths.empty()) return volume.disk_cache()->ClearAll(tool.ctx());
  ASSIGN_OR_RETURN(auto warmup,
                   volume::data::LoadWarmup(tool.ctx(), volume, {.paths = flags.paths}));
  return volume::data::EvictPlanned(tool.ctx(), volume, warmup.plan, {});
}

int RunClear(Tool& tool, const ClearFlags& flags) {
  auto cache = flags.cache.Options(true);
  if (!cache) return tool.Fail(cache.error()), kExitUsage;
  if (!flags.plan.empty() && !flags.paths.empty()) {
    tool.Fail(Status(Code::kInvalid, "give paths or --plan, not both"));
    return kExitUsage;
  }
  auto opened = tool.OpenVolume({.read_only = true,
                                 .memory_cache_bytes = 0,
                                 .cache = *std::move(cache),
                                 .cache_upkeep = false});
  if (!opened) return tool.Fail(opened.error());
  auto removed = Clear(tool, **opened, flags);
  if (!removed) return tool.Fail(removed.error());
  if (tool.json) {
    tool.PrintJson({{"blocks", removed->blocks}, {"bytes", removed->bytes}});
  } else {
    tool.Print(fmt::format("{} blocks {}, {}", FormatCount(removed->blocks),
                           flags.plan.empty() ? "removed" : "unpinned",
                           FormatSize(removed->bytes)));
  }
  return kExitDone;
}

}  // namespace

void AddClear(Command& program, Tool& tool) {
  auto flags = std::make_shared<ClearFlags>();
  Command command = program.AddCommand("clear", "remove blocks and pins from the local cache",
                                       [flags, &tool] { return RunClear(tool, *flags); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArguments("PATH", &flags->paths,
                       "files and directories of the volume; default: everything cached", false);
  command.AddOption("--plan", &flags->plan,
                    "only take the pins of this warm-up away; the blocks stay while there is room");
  flags->cache.Add(command);
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
