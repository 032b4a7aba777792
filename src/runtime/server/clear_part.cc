#include <algorithm>

#include "base/bytes.h"
#include "runtime/server/parts.h"
#include "volume/data/warmup.h"

namespace paddleop::runtime {
namespace {

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/*"))) path.pop_back();
  return path;
}

}  // namespace

Result<std::string> RunClearPart(const Context& ctx, const PartTools& tools,
                                 const JobRequest& request, JobReporter& report) {
  volume::DiskCache& cache = *tools.volume.disk_cache();
  std::vector<std::string> paths;
  bool all = request.paths.paths.empty();
  for (const std::string& path : request.paths.paths) {
    if (!path.starts_with('/')) {
      if (path.empty()) all = true;
      paths.push_back(path);
      continue;
    }
    // A cache directory by its path on the node: all that the set has in it.
    const auto& known = tools.cache_directories;
    if (std::ranges::find(known, WithoutSlash(path), WithoutSlash) == known.end()) {
      return Fail(Code::kInvalid,
                  "options.paths: {} is not a cache directory of the set; give one of them, or "
                  "paths relative to the root of the set",
                  path);
    }
    all = true;
  }
  volume::DiskCache::Removed removed;
  if (all) {
    ASSIGN_OR_RETURN(removed, cache.ClearAll(ctx));
  } else {
    ASSIGN_OR_RETURN(const volume::Tree tree,
                     tools.volume.meta().LoadTree(ctx, volume::kRootIno, true));
    ASSIGN_OR_RETURN(const auto plan, volume::data::PlanWarmup(
                                          tree, tools.volume.setting().layout(), {.paths = paths}));
    api::ProgressCount bytes{.total = static_cast<std::int64_t>(plan.cache_bytes)};
    for (const auto& planned : plan.blocks) {
      RETURN_IF_ERROR(ctx.Check());
      ASSIGN_OR_RETURN(const auto one, cache.Clear(ctx, planned.block, {}));
      removed.blocks += one.blocks;
      removed.bytes += one.bytes;
      bytes.done += planned.planned;
      report.Progress({}, bytes);
    }
  }
  const auto cleared = static_cast<std::int64_t>(removed.bytes);
  report.Progress({}, {.total = cleared, .done = cleared});
  return fmt::format("{} in {} blocks cleared", FormatSize(removed.bytes),
                     FormatCount(removed.blocks));
}

}  // namespace paddleop::runtime
