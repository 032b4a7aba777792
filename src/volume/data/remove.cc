#include "volume/data/remove.h"

#include "base/crypto.h"

namespace paddleop::volume::data {
namespace {

constexpr int kAttempts = 5;

Result<std::uint64_t> RemovePath(const Context& ctx, MetaStore& meta, std::string_view path,
                                 const RemoveOptions& options) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  const std::string_view above = slash == std::string_view::npos ? "" : path.substr(0, slash);
  const std::string_view name = path.substr(slash + 1);
  if (name.empty()) {
    return Fail(Code::kInvalid, "the root of the volume cannot be removed; name what is in it");
  }
  ASSIGN_OR_RETURN(const Entry parent, meta.Resolve(ctx, options.caller, kRootIno, above));
  for (int attempt = 1;; ++attempt) {
    auto done =
        meta.RemoveTree(ctx, options.caller, parent.ino, name, {.skip_trash = options.skip_trash});
    if (done) return done->removed;
    // Somebody adds files meanwhile.
    if (done.error().code() != Code::kNotEmpty || attempt == kAttempts)
      return std::unexpected(std::move(done).error());
  }
}

}  // namespace

RemoveReport RemovePaths(const Context& ctx, Volume& volume, std::span<const std::string> paths,
                         const RemoveOptions& options) {
  using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::steady_clock;
  RemoveReport report;
  const auto start = steady_clock::now();
  for (const std::string& path : paths) {
    auto removed = RemovePath(ctx, volume.meta(), path, options);
    if (removed) {
      report.removed += *removed;
    } else {
      report.failures.push_back({path, std::move(removed).error()});
    }
  }
  report.names = duration_cast<milliseconds>(steady_clock::now() - start);
  report.objects = volume.meta().DrainDeletions(ctx);
  report.elapsed = duration_cast<milliseconds>(steady_clock::now() - start);
  if (report.removed == 0) return report;
  // Tells those who hold a view of the tree; if it fails they see the change when they are asked to
  // refresh.
  (void)volume.meta()
      .SetXattr(ctx, kRootIno, kTreeVersionXattr, RandomUuid(), XattrMode::kAny)
      .has_value();
  return report;
}

}  // namespace paddleop::volume::data
