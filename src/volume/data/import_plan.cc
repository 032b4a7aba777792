#include "volume/data/internal/import_plan.h"

#include <algorithm>

#include "base/thread_pool.h"

namespace paddleop::volume::data {
namespace {

constexpr std::size_t kBatchSize = 1000;
constexpr std::size_t kBatchesAhead = 4;

std::string_view DirectoryOf(std::string_view key) {
  const std::size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? "" : key.substr(0, slash);
}

}  // namespace

SourceListing::SourceListing(ImportState& state)
    : state_(state), thread_([this](const std::stop_token& stop) {
        SetThreadName("import-list");
        Run(stop);
      }) {}

SourceListing::~SourceListing() {
  thread_.request_stop();
  changed_.notify_all();
}

void SourceListing::Run(const std::stop_token& stop) {
  // Ends with the import, and when its taker has gone.
  std::stop_source both;
  const std::stop_callback ours(stop, [&] { both.request_stop(); });
  const std::stop_callback theirs(state_.ctx().stop(), [&] { both.request_stop(); });
  auto listed = List(state_.ctx().WithStop(both.get_token()));
  MutexLock lock(mutex_);
  ended_ = true;
  result_ = std::move(listed);
  changed_.notify_all();
}

Result<bool> SourceListing::Push(const Context& ctx, Batch& batch) {
  MutexLock lock(mutex_);
  changed_.wait(lock, ctx.stop(),
                [this]() REQUIRES(mutex_) { return batches_.size() < kBatchesAhead; });
  RETURN_IF_ERROR(ctx.Check());
  batches_.push_back(std::exchange(batch, {}));
  changed_.notify_all();
  return true;
}

Result<void> SourceListing::List(const Context& ctx) {
  const Source& source = state_.source;
  const ImportOptions& options = state_.options;
  Batch batch;
  if (!source.single.empty()) {
    ASSIGN_OR_RETURN(object::ObjectInfo info, source.store->Head(ctx, source.single));
    info.key = source.single;
    batch.push_back(std::move(info));
  } else {
    auto listed = source.store->List(
        ctx, {.start_after = StartAfter(options.start), .directories = options.dirs},
        [&](object::ObjectInfo& entry) -> Result<bool> {
          if (!options.end.empty() && entry.key > options.end) return false;
          if (entry.key < options.start) return true;
          batch.push_back(std::move(entry));
          return batch.size() < kBatchSize ? Result<bool>(true) : Push(ctx, batch);
        });
    RETURN_IF_ERROR(listed);
  }
  if (batch.empty()) return {};
  RETURN_IF_ERROR(Push(ctx, batch));
  return {};
}

Result<SourceListing::Batch> SourceListing::Next() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() REQUIRES(mutex_) { return ended_ || !batches_.empty(); });
  if (batches_.empty()) {
    if (!result_) return std::unexpected(result_.error().Wrap("list " + state_.source.uri));
    return Batch{};
  }
  Batch batch = std::move(batches_.front());
  batches_.pop_front();
  changed_.notify_all();
  return batch;
}

ImportPlanner::ImportPlanner(ImportState& state, Transfer& transfer, Committer& committer)
    : state_(state),
      transfer_(transfer),
      committer_(committer),
      filter_(state.options.rules),
      directories_(state),
      parts_(state.options.parts) {}

Result<void> ImportPlanner::Run() {
  RETURN_IF_ERROR(directories_.Open());
  if (state_.options.delete_dst) remover_.emplace(state_, filter_, directories_.root().ino);
  {
    SourceListing listing(state_);
    for (;;) {
      ASSIGN_OR_RETURN(SourceListing::Batch batch, listing.Next());
      if (batch.empty()) break;
      seen_ += batch.size();
      RETURN_IF_ERROR(TakeBatch(std::move(batch)));
      RETURN_IF_ERROR(Retry(transfer_.TakeRetries()));
    }
  }
  if (seen_ == 0 && !state_.source.whole && state_.options.start.empty()) {
    return Fail(Code::kNotFound, "there is nothing at {}", state_.source.uri);
  }
  state_.listing = false;
  if (remover_) RETURN_IF_ERROR(remover_->Finish());
  for (;;) {
    transfer_.Flush();
    RETURN_IF_ERROR(transfer_.WaitIdle());
    std::vector<ImportItem> changed = transfer_.TakeRetries();
    if (changed.empty()) return {};
    RETURN_IF_ERROR(Retry(std::move(changed)));
  }
}

Result<void> ImportPlanner::TakeBatch(SourceListing::Batch batch) {
  std::vector<Candidate> candidates;
  for (object::ObjectInfo& entry : batch) RETURN_IF_ERROR(TakeEntry(entry, candidates));
  return Compare(std::move(candidates));
}

Result<void> ImportPlanner::FileError(const std::string& key, std::uint64_t size, Status error) {
  const Code code = error.code();
  const bool engine_failed = code == Code::kUnavailable || code == Code::kDeadline ||
                             code == Code::kCancelled || code == Code::kCorrupt ||
                             code == Code::kNoSpace || code == Code::kQuota;
  state_.FileFailed(key, size, error);
  if (engine_failed) return std::unexpected(std::move(error).Wrap(key));
  return {};
}

Result<void> ImportPlanner::TakeEntry(object::ObjectInfo& entry,
                                      std::vector<Candidate>& candidates) {
  const bool directory = entry.key.ends_with('/');
  const auto valid = CheckKey(entry.key);
  const std::optional<std::string> clash = valid ? clashes_.Next(entry.key) : std::nullopt;
  if (valid && remover_) RETURN_IF_ERROR(remover_->Saw(entry.key));
  const std::uint32_t part =
      directory ? static_cast<std::uint32_t>(StableHash(entry.key) % state_.options.parts)
                : parts_.Next(entry.key);
  if (part != state_.options.part || !filter_.Wants(entry.key)) {
    if (!directory) ++state_.excluded_files;
    return {};
  }
  if (directory && entry.size == 0 && (!state_.options.dirs || !valid)) return {};
  if (!directory || entry.size > 0) {
    ++state_.listed_files;
    state_.listed_bytes += entry.size;
  }
  if (!valid) {
    state_.FileFailed(entry.key, entry.size, valid.error());
    return {};
  }
  if (directory && entry.size > 0) {
    state_.FileFailed(
        entry.key, entry.size,
        Status(Code::kInvalid,
               fmt::format("the key ends with '/', so it would be a directory, but it has {} bytes",
                           entry.size)));
    return {};
  }
  if (clash) {
    state_.FileFailed(
        entry.key, entry.size,
        Status(Code::kNotDirectory,
               fmt::format("the source has the file \"{}\" and also \"{}\", for which "
                           "\"{}\" would have to be a directory; rename one of them",
                           *clash, entry.key, *clash)));
    return {};
  }
  return directory ? TakeDirectory(entry) : TakeFile(entry, candidates);
}

Result<void> ImportPlanner::TakeDirectory(const object::ObjectInfo& entry) {
  const std::string_view path = std::string_view(entry.key).substr(0, entry.key.size() - 1);
  auto made = state_.options.perms && entry.owner ? directories_.Enter(path, *entry.owner)
                                                  : directories_.Enter(path);
  if (!made) return FileError(entry.key, 0, std::move(made).error());
  return {};
}

Result<void> ImportPlanner::TakeFile(object::ObjectInfo& entry,
                                     std::vector<Candidate>& candidates) {
  auto place = directories_.Enter(DirectoryOf(entry.key));
  if (!place) return FileError(entry.key, entry.size, std::move(place).error());
  Candidate candidate;
  candidate.fresh = place->fresh;
  ImportItem& item = candidate.item;
  item.parent = place->ino;
  item.name = entry.key.substr(entry.key.rfind('/') + 1);
  item.size = entry.size;
  const bool known = entry.mtime != std::chrono::system_clock::time_point{};
  item.mtime = known ? Timestamp::From(entry.mtime) : Timestamp{};
  item.etag = std::move(entry.etag);
  item.owner = entry.owner;
  item.key = std::move(entry.key);
  candidates.push_back(std::move(candidate));
  return {};
}

Result<bool> ImportPlanner::NeedsCopy(const ImportItem& item, const Entry& existing) {
  const ImportOptions& options = state_.options;
  if (existing.attr.type == FileType::kDirectory) {
    return Fail(Code::kIsDirectory, "there is a directory \"{}\" in the volume", item.name);
  }
  if (existing.attr.type != FileType::kFile || existing.attr.nlink == 0) return true;
  if (options.force_update) return true;
  const bool timed = item.mtime != Timestamp{};
  const bool same_time = !timed || SameTime(item.mtime, existing.attr.mtime);
  if (options.update) return !same_time && item.mtime > existing.attr.mtime;
  return !same_time || existing.attr.length != item.size;
}

void ImportPlanner::Skip(const ImportItem& item, const Entry& existing) {
  ++state_.skipped_files;
  state_.skipped_bytes += item.size;
  const ImportOptions& options = state_.options;
  if (options.dry) return;
  if (options.perms && item.owner &&
      (item.owner->mode != existing.attr.mode || item.owner->uid != existing.attr.uid ||
       item.owner->gid != existing.attr.gid)) {
    auto changed = state_.volume.meta().SetAttr(
        state_.ctx(), options.caller, existing.ino,
        {.mode = item.owner->mode, .uid = item.owner->uid, .gid = item.owner->gid});
    if (!changed) state_.FileFailed(item.key, 0, changed.error().Wrap("set mode and owner"));
  }
  if (options.delete_src) committer_.DeleteFromSource(item.key);
}

Result<void> ImportPlanner::Compare(std::vector<Candidate> candidates) {
  std::vector<ChildName> names;
  for (const Candidate& candidate : candidates) {
    if (!candidate.fresh) {
      names.push_back({.parent = candidate.item.parent, .name = candidate.item.name});
    }
  }
  std::vector<std::optional<Entry>> found;
  if (!names.empty()) {
    ASSIGN_OR_RETURN(found, state_.volume.meta().LookupMany(state_.ctx(), names));
  }
  std::size_t next = 0;
  for (Candidate& candidate : candidates) {
    ImportItem& item = candidate.item;
    const std::optional<Entry> existing = candidate.fresh ? std::nullopt : found[next++];
    if (existing) {
      auto needed = NeedsCopy(item, *existing);
      if (!needed) {
        state_.FileFailed(item, std::move(needed).error());
        continue;
      }
      if (!*needed) {
        Skip(item, *existing);
        continue;
      }
    }
    if (state_.options.dry) {
      ++state_.copied_files;
      state_.copied_bytes += item.size;
      continue;
    }
    if (item.mtime == Timestamp{}) item.mtime = Timestamp::From(std::chrono::system_clock::now());
    RETURN_IF_ERROR(transfer_.Add(std::move(item)));
  }
  return {};
}

Result<void> ImportPlanner::Retry(std::vector<ImportItem> changed) {
  for (ImportItem& item : changed) {
    auto info = state_.source.store->Head(state_.ctx(), item.key);
    if (!info && IsNotFound(info.error())) {
      // Deleted since it was listed: there is nothing to import any more.
      --state_.listed_files;
      state_.listed_bytes -= item.size;
      continue;
    }
    if (!info) {
      state_.FileFailed(item, std::move(info).error());
      continue;
    }
    state_.listed_bytes += info->size - item.size;
    item.size = info->size;
    if (info->mtime != std::chrono::system_clock::time_point{}) {
      item.mtime = Timestamp::From(info->mtime);
    }
    item.etag = std::move(info->etag);
    RETURN_IF_ERROR(transfer_.Add(std::move(item)));
  }
  return {};
}

}  // namespace paddleop::volume::data
