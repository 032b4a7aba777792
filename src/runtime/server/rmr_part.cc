#include <algorithm>

#include "base/bytes.h"
#include "runtime/server/parts.h"
#include "volume/data/remove.h"

namespace paddleop::runtime {

Result<std::string> RunRmrPart(const Context& ctx, const PartTools& tools,
                               const JobRequest& request, JobReporter& report) {
  constexpr std::size_t kAtOnce = 100;
  const std::span<const std::string> paths(request.paths.paths);
  api::ProgressCount count{.total = static_cast<std::int64_t>(paths.size())};
  std::uint64_t removed = 0;
  for (std::size_t at = 0; at < paths.size(); at += kAtOnce) {
    RETURN_IF_ERROR(ctx.Check());
    const auto some = paths.subspan(at, std::min(kAtOnce, paths.size() - at));
    // Symbolic links are not followed: what is removed lies in the set.
    const auto done = volume::data::RemovePaths(ctx, tools.volume, some, {});
    std::int64_t failed = 0;
    for (const auto& failure : done.failures) {
      // The run before this one removed it and was killed before it could say so.
      if (report.Again() && IsNotFound(failure.error)) continue;
      report.Failed({failure.key, failure.error.message()});
      ++failed;
    }
    removed += done.removed;
    count.failed += failed;
    count.done += static_cast<std::int64_t>(some.size()) - failed;
    report.Progress(count, {});
    if (!done.objects) {
      tools.log.Warn(ctx, "objects of removed files not deleted yet",
                     {{"error", done.objects.error().message()}});
    }
  }
  const std::string text = fmt::format("{} of {} paths removed ({} names)", count.done, count.total,
                                       FormatCount(removed));
  if (count.failed > 0) return Fail(Code::kInternal, "{}", text);
  return text;
}

}  // namespace paddleop::runtime
