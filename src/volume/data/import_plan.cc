#include "volume/data/internal/import_plan.h"

#include "volume/format/reserved_names.h"

namespace paddleop::volume::data {
namespace {

std::string_view DirectoryOf(std::string_view key) {
  const std::size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? "" : key.substr(0, slash);
}

}  // namespace

ImportPlanner::ImportPlanner(ImportState& state, Transfer& transfer, Committer& committer)
    : state_(state),
      transfer_(transfer),
      committer_(committer),
      filter_(state.options.rules),
      directories_(state),
      parts_(state.options.parts) {}

Result<void> ImportPlanner::Run() {
  {
    SourceListing listing(state_);
    ASSIGN_OR_RETURN(SourceListing::Batch batch, listing.Next());
    if (batch.empty() && !state_.source.whole) RETURN_IF_ERROR(CheckSourceExists());
    // Not before the source has answered: a wrong one leaves no trace in the volume.
    RETURN_IF_ERROR(directories_.Open());
    if (state_.options.delete_dst) remover_.emplace(state_, filter_, directories_.root().ino);
    while (!batch.empty()) {
      RETURN_IF_ERROR(TakeBatch(std::move(batch)));
      RETURN_IF_ERROR(Retry(transfer_.TakeRetries()));
      ASSIGN_OR_RETURN(batch, listing.Next());
    }
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

Result<void> ImportPlanner::CheckSourceExists() {
  bool found = false;
  if (!state_.options.start.empty() || !state_.options.end.empty()) {
    // Nothing between the bounds is fine; nothing at all is a mistyped name, and what lies in the
    // volume must not be deleted for that.
    RETURN_IF_ERROR(state_.source.store->List(state_.ctx(), {.limit = 1}, [&](object::ObjectInfo&) {
      found = true;
      return Result<bool>(false);
    }));
  }
  if (found) return {};
  return Fail(Code::kNotFound, "there is nothing at {}", state_.source.uri);
}

Result<void> ImportPlanner::TakeBatch(SourceListing::Batch batch) {
  std::vector<Candidate> candidates;
  for (object::ObjectInfo& entry : batch) RETURN_IF_ERROR(TakeEntry(entry, candidates));
  return Compare(std::move(candidates));
}

Result<void> ImportPlanner::CheckPlace(std::string_view key) const {
  RETURN_IF_ERROR(CheckKey(key));
  const std::string_view first = key.substr(0, key.find('/'));
  if (directories_.root().ino != kRootIno || !IsReservedInRoot(first)) return {};
  return Fail(Code::kInvalid,
              "\"{}\" is reserved in the root of a volume; import into another directory (--to)",
              first);
}

Result<void> ImportPlanner::TakeEntry(object::ObjectInfo& entry,
                                      std::vector<Candidate>& candidates) {
  const bool directory = entry.key.ends_with('/');
  const auto valid = CheckPlace(entry.key);
  const bool wanted = filter_.Wants(entry.key);
  // Also with keys of other parts, but not with those that nobody imports.
  const std::optional<std::string> clash =
      valid && wanted ? clashes_.Next(entry.key) : std::nullopt;
  if (valid && remover_) RETURN_IF_ERROR(remover_->Saw(entry.key));
  const std::uint32_t part =
      directory ? static_cast<std::uint32_t>(StableHash(entry.key) % state_.options.parts)
                : parts_.Next(entry.key);
  if (part != state_.options.part || !wanted) {
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
  if (!entry.problem.empty()) {
    state_.FileFailed(entry.key, 0, Status(Code::kInvalid, std::move(entry.problem)));
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
  if (!made) return state_.FileError(entry.key, 0, std::move(made).error());
  return {};
}

Result<void> ImportPlanner::TakeFile(object::ObjectInfo& entry,
                                     std::vector<Candidate>& candidates) {
  auto place = directories_.Enter(DirectoryOf(entry.key));
  if (!place) return state_.FileError(entry.key, entry.size, std::move(place).error());
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

bool ImportPlanner::IsSame(const ImportItem& item, const Entry& existing) {
  return existing.attr.type == FileType::kFile && existing.attr.length == item.size &&
         item.mtime != Timestamp{} && SameTime(item.mtime, existing.attr.mtime);
}

// With --delete-dst it gives way, unless patterns or bounds may want to keep something in it.
Result<bool> ImportPlanner::ReplaceDirectory(const ImportItem& item) {
  const ImportOptions& options = state_.options;
  if (!options.delete_dst || !options.selects_all()) {
    return Fail(Code::kIsDirectory,
                "there is a directory \"{}\" in the volume; remove it there (samplefs rmr), or "
                "import everything with --delete-dst",
                item.key);
  }
  if (options.dry) {
    ++state_.deleted_files;
    return true;
  }
  ASSIGN_OR_RETURN(
      const RemoveTreeDone done,
      state_.volume.meta().RemoveTree(state_.ctx(), options.caller, item.parent, item.name, {}));
  state_.deleted_files += done.removed;
  return true;
}

Result<bool> ImportPlanner::NeedsCopy(const ImportItem& item, const Entry& existing) {
  const ImportOptions& options = state_.options;
  if (existing.attr.type == FileType::kDirectory) return ReplaceDirectory(item);
  if (existing.attr.type != FileType::kFile || existing.attr.nlink == 0) return true;
  if (options.force_update) return true;
  const bool timed = item.mtime != Timestamp{};
  // A size alone is not reason enough to delete the source.
  if (!timed && options.delete_src) return true;
  const bool same_time = !timed || SameTime(item.mtime, existing.attr.mtime);
  if (options.update) return !same_time && item.mtime > existing.attr.mtime;
  return !same_time || existing.attr.length != item.size;
}

void ImportPlanner::Skip(const ImportItem& item, const Entry& existing) {
  const ImportOptions& options = state_.options;
  if (!options.dry && options.perms && item.owner &&
      (item.owner->mode != existing.attr.mode || item.owner->uid != existing.attr.uid ||
       item.owner->gid != existing.attr.gid)) {
    auto changed = SetOwner(state_, existing, *item.owner);
    if (!changed) return state_.FileFailed(item, changed.error().Wrap("set mode and owner"));
  }
  // With --update the volume may have something newer, which is no copy of this one.
  if (!options.dry && options.delete_src && IsSame(item, existing)) {
    return committer_.DeleteFromSource({.item = item, .copied = false});
  }
  ++state_.skipped_files;
  state_.skipped_bytes += item.size;
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
