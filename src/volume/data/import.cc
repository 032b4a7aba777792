#include "volume/data/import.h"

#include <optional>
#include <ranges>
#include <set>
#include <thread>

#include "base/crypto.h"
#include "base/mutex.h"
#include "base/scheduling.h"
#include "base/thread_pool.h"
#include "volume/data/internal/import_commit.h"
#include "volume/data/internal/import_journal.h"
#include "volume/data/internal/import_plan.h"
#include "volume/data/internal/import_state.h"
#include "volume/data/internal/import_transfer.h"

namespace paddleop::volume::data {
namespace {

// Of `ids`, those that a file refers to, or that wait for their deletion by others. Looks at every
// chunk of the volume.
Result<std::set<std::uint64_t>> ReferredTo(const Context& ctx, MetaStore& meta,
                                           const std::set<std::uint64_t>& ids) {
  std::set<std::uint64_t> referred;
  RETURN_IF_ERROR(meta.ScanChunks(
      ctx, [&](Ino, std::uint32_t, const std::vector<Slice>& slices) -> Result<void> {
        for (const Slice& slice : slices) {
          if (ids.contains(slice.id)) referred.insert(slice.id);
        }
        return {};
      }));
  RETURN_IF_ERROR(meta.ScanDelayedSlices(ctx, [&](SliceKey slice, std::int64_t) -> Result<void> {
    if (ids.contains(slice.id)) referred.insert(slice.id);
    return {};
  }));
  return referred;
}

// Deletes what imports that were killed had stored and not committed. Only what they were
// committing when they died has to be looked for in the metadata.
Result<void> Reclaim(const Context& ctx, Volume& volume, ImportJournal& journal,
                     const Logger& log) {
  std::vector<SliceKey> unused;
  std::set<std::uint64_t> doubtful;
  for (const auto& [slice, stage] : journal.abandoned()) {
    unused.push_back(slice);
    if (stage == SliceStage::kCommitting) doubtful.insert(slice.id);
  }
  if (!doubtful.empty()) {
    ASSIGN_OR_RETURN(const auto referred, ReferredTo(ctx, volume.meta(), doubtful));
    std::erase_if(unused, [&](const SliceKey& slice) { return referred.contains(slice.id); });
  }
  if (!journal.abandoned().empty()) {
    for (Result<void>& gone : volume.blocks().DeleteSlices(ctx, unused)) {
      RETURN_IF_ERROR(std::move(gone));
    }
    log.Info(ctx, "cleaned up after an import that was killed",
             {{"slices", journal.abandoned().size()}, {"deleted", unused.size()}});
  }
  journal.ForgetAbandoned();
  return {};
}

constexpr int kMaxDepth = 4096;

Result<bool> LiesIn(const Context& ctx, MetaStore& meta, Ino directory, Ino above) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (directory == above) return true;
    if (directory == kRootIno) return false;
    ASSIGN_OR_RETURN(const Attr attr, meta.GetAttr(ctx, directory));
    directory = attr.parent;
  }
  return Fail(Code::kCorrupt, "directory {} lies more than {} levels deep", ToInt(directory),
              kMaxDepth);
}

// The directory of the volume that the source is, if it is one: named by the volume's URL, or by a
// path below a mount of it. Numbers alone tell little of the latter, but numbers and times to the
// nanosecond do.
Result<std::optional<Ino>> SourceDirectory(const Context& ctx, Volume& volume,
                                           const Source& source) {
  if (source.volume && source.volume->uuid == volume.setting().uuid)
    return source.volume->directory;
  if (!source.mounted) return std::nullopt;
  auto attr = volume.meta().GetAttr(ctx, source.mounted->directory);
  if (!attr && IsNotFound(attr.error())) return std::nullopt;
  if (!attr) return std::unexpected(std::move(attr).error());
  const bool same = attr->type == FileType::kDirectory && attr->mtime == source.mounted->mtime &&
                    attr->ctime == source.mounted->ctime;
  return same ? std::optional(source.mounted->directory) : std::nullopt;
}

// A directory of the volume is no source for itself or what lies in it: files would be compared
// with themselves, and --delete-src or --delete-dst would delete the only copy.
Result<void> CheckApart(const Context& ctx, Volume& volume, const Source& source,
                        const ImportOptions& options) {
  ASSIGN_OR_RETURN(const std::optional<Ino> found, SourceDirectory(ctx, volume, source));
  if (!found) return {};
  MetaStore& meta = volume.meta();
  const Ino from = *found;
  Ino to = kRootIno;  // the destination, or the last directory above it that there is
  bool there = true;
  for (const auto part : std::views::split(options.to, '/')) {
    if (part.empty()) continue;
    auto next = meta.Lookup(ctx, {}, to, std::string_view(part));
    there = next.has_value();
    if (!there && !IsNotFound(next.error())) return std::unexpected(std::move(next).error());
    if (!there) break;
    to = next->ino;
  }
  if (!source.single.empty()) {
    if (!there || to != from) return {};
    return Fail(Code::kInvalid, "{} would be imported onto itself; give another --to", source.uri);
  }
  ASSIGN_OR_RETURN(const bool below, LiesIn(ctx, meta, to, from));
  if (below) {
    return Fail(Code::kInvalid,
                "the destination {} is the source {} or lies in it; give another --to", options.to,
                source.uri);
  }
  if (!options.delete_dst || !there) return {};
  ASSIGN_OR_RETURN(const bool above, LiesIn(ctx, meta, from, to));
  if (!above) return {};
  return Fail(Code::kInvalid,
              "the source {} lies in the destination {}: delete-dst would remove it", source.uri,
              options.to);
}

void TransferAll(ImportState& state, ImportJournal* journal) {
  Committer committer(state, journal);
  {
    Transfer transfer(state, journal,
                      [&](StoredFiles stored) { committer.Put(std::move(stored)); });
    ImportPlanner planner(state, transfer, committer);
    if (auto planned = planner.Run(); !planned) state.Abort(std::move(planned).error());
  }
  committer.Finish();
}

// Tells those who hold a view of the tree that it has changed.
Result<void> MarkTreeChanged(Volume& volume) {
  const Context ctx = Context::Background().WithTimeout(std::chrono::seconds(30));
  return volume.meta().SetXattr(ctx, kRootIno, kTreeVersionXattr, RandomUuid(), XattrMode::kAny);
}

void Work(ImportState& state) {
  std::unique_ptr<ImportJournal> journal;
  if (!state.options.journal_dir.empty() && !state.options.dry) {
    auto opened = ImportJournal::Open(state.options.journal_dir + "/" +
                                      state.volume.setting().uuid + "/import");
    if (!opened) {
      return state.Abort(std::move(opened).error().Wrap("keep the journal of uploads"));
    }
    journal = *std::move(opened);
  }
  {
    std::jthread reclaiming;
    if (journal) {
      reclaiming = std::jthread([&] {
        SetThreadName("import-reclaim");
        auto done = Reclaim(state.ctx(), state.volume, *journal, state.log);
        if (!done && !state.aborted()) {
          state.log.Warn(state.ctx(), "objects that a killed import left stay for the next one",
                         {{"error", done.error().message()}});
        }
      });
    }
    TransferAll(state, journal.get());
  }
  if (state.options.dry || state.copied_files + state.deleted_files + state.made_directories == 0)
    return;
  if (auto marked = MarkTreeChanged(state.volume); !marked) {
    state.log.Warn(state.ctx(), "mounts that are read-only may not see the change by themselves",
                   {{"error", marked.error().message()}});
  }
}

}  // namespace

Result<void> ImportOptions::Validate() const {
  if (threads < 1 || threads > 512) {
    return Fail(Code::kInvalid, "threads is {}; give 1 to 512", threads);
  }
  if (parts < 1 || part >= parts) {
    return Fail(Code::kInvalid, "part {} of {}: parts are counted from 0", part, parts);
  }
  if (!start.empty() && !end.empty() && start > end) {
    return Fail(Code::kInvalid, R"(start "{}" lies behind end "{}")", start, end);
  }
  if (update && force_update) {
    return Fail(Code::kInvalid, "update and force-update contradict each other");
  }
  if (delete_src && delete_dst) {
    return Fail(Code::kInvalid,
                "delete-src and delete-dst together would empty both sides on the second run");
  }
  for (const FilterRule& rule : rules) {
    if (rule.pattern.empty()) {
      return Fail(Code::kInvalid, "an {} pattern is empty", rule.include ? "include" : "exclude");
    }
  }
  return {};
}

ImportReport Import(const Context& ctx, Volume& volume, const Source& source,
                    const ImportOptions& options, const Logger& log) {
  ImportReport report;
  report.result = options.Validate();
  if (report.result && options.delete_dst && !source.single.empty()) {
    report.result =
        Fail(Code::kInvalid, "{} is one file: delete-dst would remove all others", source.uri);
  }
  if (report.result) report.result = CheckApart(ctx, volume, source, options);
  if (!report.result) return report;

  ImportState state(ctx, volume, source, options, log);
  Mutex mutex;
  CondVar changed;
  bool done = false;
  std::jthread worker([&] {
    SetThreadName("import");
    SetThreadBatch();  // as everything that it starts
    Work(state);
    MutexLock lock(mutex);
    done = true;
    changed.notify_all();
  });
  for (;;) {
    MutexLock lock(mutex);
    if (changed.wait_for(lock, options.progress_interval, [&] { return done; })) break;
    lock.unlock();
    if (options.on_progress) options.on_progress(state.Snapshot());
    lock.lock();
  }
  worker.join();
  report.progress = state.Snapshot();
  if (options.on_progress) options.on_progress(report.progress);
  report.failures = state.TakeFailures();
  report.result = state.Reason();
  return report;
}

}  // namespace paddleop::volume::data
