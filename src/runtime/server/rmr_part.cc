#include "base/bytes.h"
#include "runtime/server/parts.h"

namespace paddleop::runtime {
namespace {

// The directory that holds the last part of `path`, and that part.
Result<std::pair<volume::Ino, std::string>> ParentOf(const Context& ctx, volume::MetaStore& meta,
                                                     std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const auto slash = path.rfind('/');
  const std::string_view parent = slash == std::string_view::npos ? "" : path.substr(0, slash);
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  ASSIGN_OR_RETURN(const auto entry, meta.Resolve(ctx, {}, volume::kRootIno, parent));
  return std::pair(entry.ino, std::string(name));
}

// Names removed. Symbolic links are not followed: what is removed lies in the set.
Result<std::uint64_t> Remove(const Context& ctx, volume::MetaStore& meta, const std::string& path) {
  constexpr int kAttempts = 10;
  ASSIGN_OR_RETURN(const auto place, ParentOf(ctx, meta, path));
  for (int attempt = 0;; ++attempt) {
    auto done = meta.RemoveTree(ctx, {}, place.first, place.second, {});
    if (done) return done->removed;
    // Somebody adds files meanwhile.
    if (done.error().code() != Code::kNotEmpty || attempt == kAttempts) {
      return std::unexpected(std::move(done).error());
    }
  }
}

}  // namespace

Result<std::string> RunRmrPart(const Context& ctx, const PartTools& tools,
                               const JobRequest& request, JobReporter& report) {
  api::ProgressCount count{.total = static_cast<std::int64_t>(request.paths.paths.size())};
  std::uint64_t names = 0;
  for (const std::string& path : request.paths.paths) {
    RETURN_IF_ERROR(ctx.Check());
    auto removed = Remove(ctx, tools.volume.meta(), path);
    if (removed) {
      names += *removed;
      ++count.done;
    } else if (report.Again() && IsNotFound(removed.error())) {
      // The run before this one removed it and was killed before it could say so.
      ++count.done;
    } else {
      ++count.failed;
      report.Failed({path, removed.error().message()});
    }
    report.Progress(count, {});
  }
  const std::string text =
      fmt::format("{} of {} paths removed ({} names)", count.done, count.total, FormatCount(names));
  if (count.failed > 0) return Fail(Code::kInternal, "{}", text);
  return text;
}

}  // namespace paddleop::runtime
