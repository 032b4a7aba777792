#include <algorithm>

#include "base/backoff.h"
#include "base/bytes.h"
#include "runtime/server/parts.h"
#include "volume/data/remove.h"
#include "volume/data/warmup.h"

namespace paddleop::runtime {
namespace {

bool IsIn(const volume::Tree& tree, std::string_view path) {
  volume::Tree::NodeIndex node = tree.Find(tree.root());
  while (!path.empty() && node != volume::Tree::kNone) {
    const auto slash = std::min(path.find('/'), path.size());
    if (const auto name = path.substr(0, slash); !name.empty()) node = tree.Lookup(node, name);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return node != volume::Tree::kNone;
}

// The blocks of which no file outside `paths` needs anything, by whole pages: what two files share
// a page of is fetched again if it is needed.
Result<std::vector<volume::BlockId>> BlocksOf(const Context& ctx, volume::Volume& volume,
                                              std::vector<std::string> paths) {
  ASSIGN_OR_RETURN(const volume::Tree tree, volume.meta().LoadTree(ctx, volume::kRootIno, true));
  std::erase_if(paths, [&](const std::string& path) { return !IsIn(tree, path); });
  std::vector<volume::BlockId> blocks;
  if (paths.empty()) return blocks;
  const auto& layout = volume.setting().layout();
  ASSIGN_OR_RETURN(const auto all,
                   volume::data::PlanWarmup(tree, layout, {.paths = {}, .ranges_only = true}));
  ASSIGN_OR_RETURN(const auto removed,
                   volume::data::PlanWarmup(tree, layout, {.paths = paths, .ranges_only = true}));
  auto at = all.blocks.begin();  // both are in stored order
  for (const auto& planned : removed.blocks) {
    while (at != all.blocks.end() && at->block != planned.block) ++at;
    if (at != all.blocks.end() && at->planned == planned.planned) blocks.push_back(planned.block);
  }
  return blocks;
}

// Drops what the caches of all partitions have of the paths. A partition that cannot be reached
// keeps it until its room is needed, or it is cleared.
Result<void> DropCached(const Context& ctx, const PartTools& tools,
                        const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(const auto blocks, BlocksOf(ctx, tools.volume, paths));
  constexpr std::size_t kAtOnce = 1024;
  for (std::uint32_t partition = 0; partition < tools.link.count(); ++partition) {
    for (std::size_t at = 0; at < blocks.size(); at += kAtOnce) {
      const auto some = std::span(blocks).subspan(at, std::min(kAtOnce, blocks.size() - at));
      auto dropped = partition == tools.link.self() ? tools.node.Drop(ctx, some)
                                                    : tools.link.Drop(ctx, partition, some);
      if (dropped) continue;
      RETURN_IF_ERROR(ctx.Check());
      tools.log.Warn(ctx, "removed files stay in a cache",
                     {{"partition", partition}, {"error", dropped.error().message()}});
      break;
    }
  }
  return {};
}

// With a metadata server that is away.
constexpr std::chrono::seconds kMetaPatience{60};

struct Removal {
  std::uint64_t names = 0;
  std::int64_t failed = 0;  // paths
};

// Removes the paths. Those that met a server that went away are tried again: they may have been
// removed without an answer.
Removal RemoveSome(const Context& ctx, const PartTools& tools, std::vector<std::string> paths,
                   JobReporter& report) {
  Removal removal;
  const Context bounded = ctx.WithTimeout(kMetaPatience);
  Backoff backoff({.initial = std::chrono::milliseconds(200), .maximum = std::chrono::seconds(2)});
  // The run before this one removed it and was killed before it could say so.
  bool again = report.Again();
  for (bool patient = true; !paths.empty(); again = true) {
    // Symbolic links are not followed: what is removed lies in the set.
    const auto done = volume::data::RemovePaths(ctx, tools.volume, paths, {});
    removal.names += done.removed;
    if (!done.objects) {
      tools.log.Warn(ctx, "objects of removed files not deleted yet",
                     {{"error", done.objects.error().message()}});
    }
    paths.clear();
    for (const auto& failure : done.failures) {
      if (failure.error.code() == Code::kUnavailable) paths.push_back(failure.key);
    }
    if (!paths.empty()) patient = backoff.Sleep(bounded);
    for (const auto& failure : done.failures) {
      const bool away = failure.error.code() == Code::kUnavailable;
      if ((away && patient) || (again && IsNotFound(failure.error))) continue;
      report.Failed({failure.key, failure.error.message()});
      ++removal.failed;
    }
    if (!patient) break;
  }
  return removal;
}

}  // namespace

Result<std::string> RunRmrPart(const Context& ctx, const PartTools& tools,
                               const JobRequest& request, JobReporter& report) {
  constexpr std::size_t kAtOnce = 100;
  const std::span<const std::string> paths(request.paths.paths);
  api::ProgressCount count{.total = static_cast<std::int64_t>(paths.size())};
  std::uint64_t removed = 0;
  // First, since what is gone from the metadata cannot be found by whoever takes over from a
  // runtime that was killed in between.
  RETURN_IF_ERROR(DropCached(ctx, tools, request.paths.paths));
  for (std::size_t at = 0; at < paths.size(); at += kAtOnce) {
    RETURN_IF_ERROR(ctx.Check());
    const auto some = paths.subspan(at, std::min(kAtOnce, paths.size() - at));
    const Removal done = RemoveSome(ctx, tools, {some.begin(), some.end()}, report);
    removed += done.names;
    count.failed += done.failed;
    count.done += static_cast<std::int64_t>(some.size()) - done.failed;
    report.Progress(count, {});
  }
  std::string text = fmt::format("{} of {} paths removed ({} names)", count.done, count.total,
                                 FormatCount(removed));
  if (count.failed > 0) return Fail(Code::kInternal, "{}", text);
  return text;
}

}  // namespace paddleop::runtime
