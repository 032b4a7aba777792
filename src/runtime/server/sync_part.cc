#include <algorithm>

#include "base/bytes.h"
#include "runtime/server/parts.h"
#include "volume/data/import.h"
#include "volume/data/source.h"

namespace paddleop::runtime {
namespace {

using volume::data::ImportOptions;
using volume::data::ImportProgress;

std::int64_t Signed(std::uint64_t n) { return static_cast<std::int64_t>(n); }

// Sums the progress of one source after the other.
class Sum {
 public:
  explicit Sum(JobReporter& report) : report_(report) {}

  void Show(const ImportProgress& now) {
    api::ProgressCount files = files_;
    api::ProgressCount bytes = bytes_;
    Add(now, files, bytes);
    report_.Progress(files, bytes);
  }
  void Keep(const ImportProgress& now) {
    Add(now, files_, bytes_);
    report_.Progress(files_, bytes_);
    deleted_ += Signed(now.deleted_files);
  }
  std::string Text() const {
    std::string text =
        fmt::format("{} files copied ({}), {} skipped", files_.done,
                    FormatSize(static_cast<std::uint64_t>(bytes_.done)), files_.skipped);
    if (deleted_ > 0) text += fmt::format(", {} deleted", deleted_);
    if (files_.failed > 0) text += fmt::format(", {} failed", files_.failed);
    return text;
  }

 private:
  static void Add(const ImportProgress& now, api::ProgressCount& files, api::ProgressCount& bytes) {
    files.total += Signed(now.listed_files);
    files.done += Signed(now.copied_files);
    files.skipped += Signed(now.skipped_files);
    files.failed += Signed(now.failed_files);
    bytes.total += Signed(now.listed_bytes);
    bytes.done += Signed(now.copied_bytes);
    bytes.skipped += Signed(now.skipped_bytes);
    bytes.failed += Signed(now.failed_bytes);
  }

  JobReporter& report_;
  api::ProgressCount files_;
  api::ProgressCount bytes_;
  std::int64_t deleted_ = 0;
};

ImportOptions OptionsFor(const PartTools& tools, const JobRequest& request,
                         const JobSource& source) {
  const api::SyncOptions& sync = request.sync;
  ImportOptions options;
  options.to = "/" + source.path;
  if (sync.threads > 0) options.threads = static_cast<std::size_t>(std::min(sync.threads, 512));
  options.update = sync.update;
  options.force_update = sync.force_update;
  options.perms = sync.perms;
  options.dirs = sync.dirs;
  options.dry = sync.dry;
  options.delete_src = sync.delete_src;
  options.delete_dst = sync.delete_dst;
  options.start = sync.start;
  options.end = sync.end;
  if (!sync.include.empty()) options.rules.push_back({.include = true, .pattern = sync.include});
  if (!sync.exclude.empty()) options.rules.push_back({.include = false, .pattern = sync.exclude});
  options.part = request.part->index;
  options.parts = request.part->count;
  options.journal_dir = tools.journal_dir;
  return options;
}

}  // namespace

Result<std::string> RunSyncPart(const Context& ctx, const PartTools& tools,
                                const JobRequest& request, JobReporter& report) {
  Sum sum(report);
  bool failed = false;
  for (const JobSource& from : request.sources) {
    RETURN_IF_ERROR(CheckLocalSource(from.uri, tools.source_directories));
    auto source = volume::data::OpenSource(
        ctx, from.uri,
        {.no_https = request.sync.no_https,
         .bwlimit_mbps = request.sync.bwlimit,
         .threads = request.sync.threads > 0
                        ? static_cast<std::size_t>(std::min(request.sync.threads, 512))
                        : 32,
         .access_key = from.credentials.access_key,
         .secret_key = from.credentials.secret_key,
         .session_token = from.credentials.session_token},
        tools.log, tools.metrics);
    if (!source) return std::unexpected(std::move(source).error());
    ImportOptions options = OptionsFor(tools, request, from);
    options.progress_interval = std::chrono::milliseconds(500);
    options.on_progress = [&](const ImportProgress& now) { sum.Show(now); };
    options.on_failure = [&](const volume::data::FileFailure& failure) {
      report.Failed({failure.key, failure.error.message()});
    };
    const auto imported = volume::data::Import(ctx, tools.volume, *source, options, tools.log);
    sum.Keep(imported.progress);
    if (!imported.result) {
      return std::unexpected(imported.result.error().Wrap("import from " + source->uri));
    }
    failed = failed || imported.progress.failed_files > 0;
  }
  if (failed) return Fail(Code::kInternal, "{}", sum.Text());
  return sum.Text();
}

}  // namespace paddleop::runtime
