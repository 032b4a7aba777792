#include "volume/data/internal/import_remove.h"

#include <algorithm>

namespace paddleop::volume::data {
namespace {

constexpr std::size_t kPage = 1000;
constexpr std::size_t kNamesPerCall = 300;
constexpr int kAttempts = 5;

Status NotRemoved(const Status& error) {
  return error.Wrap("the source does not have it, but it cannot be removed from the volume");
}

std::string Join(std::string_view path, std::string_view name) {
  std::string joined(path);
  if (!joined.empty()) joined += '/';
  return joined.append(name);
}

bool IsBelow(std::string_view key, std::string_view directory) {
  return directory.empty() || (key.size() > directory.size() && key.starts_with(directory) &&
                               key[directory.size()] == '/');
}

}  // namespace

Result<void> ExtraneousRemover::Saw(std::string_view key) {
  while (!IsBelow(key, levels_.back().path)) RETURN_IF_ERROR(Leave());
  for (;;) {
    const std::size_t start = levels_.back().path.empty() ? 0 : levels_.back().path.size() + 1;
    const std::size_t slash = key.find('/', start);
    const std::string_view name = key.substr(start, slash - start);
    if (!name.empty()) {
      auto& seen = levels_.back().seen;
      const std::uint64_t hash = StableHash(name);
      if (seen.empty() || seen.back() != hash) seen.push_back(hash);
    }
    if (slash == std::string_view::npos || name.empty()) return {};
    levels_.push_back({.path = std::string(key.substr(0, slash)), .seen = {}});
  }
}

Result<void> ExtraneousRemover::Finish() {
  while (!levels_.empty()) RETURN_IF_ERROR(Leave());
  return {};
}

Result<void> ExtraneousRemover::Leave() {
  Level level = std::move(levels_.back());
  levels_.pop_back();
  if (StableHash(level.path) % state_.options.parts != state_.options.part) return {};
  std::sort(level.seen.begin(), level.seen.end());
  RETURN_IF_ERROR(Sweep(level.path, level.seen));
  return {};
}

bool ExtraneousRemover::Selects(std::string_view path) const {
  return InRange(path, state_.options.start, state_.options.end) && filter_.Wants(path);
}

Result<bool> ExtraneousRemover::Sweep(const std::string& path,
                                      const std::vector<std::uint64_t>& seen) {
  MetaStore& meta = state_.volume.meta();
  const Context& ctx = state_.ctx();
  if (root_ == kNoIno) return false;
  auto directory = meta.Resolve(ctx, {}, root_, path);
  if (!directory) {
    const Code code = directory.error().code();
    if (code == Code::kNotFound || code == Code::kNotDirectory) return false;
    return std::unexpected(std::move(directory).error());
  }
  if (directory->attr.type != FileType::kDirectory) return false;
  bool all = true;
  std::string cursor;
  do {
    ASSIGN_OR_RETURN(const DirPage page,
                     meta.ReadDir(ctx, {}, directory->ino, cursor, kPage, false));
    std::vector<std::string> names;
    for (const DirEntry& entry : page.entries) {
      const std::string below = Join(path, entry.name);
      bool goes = false;
      if (std::binary_search(seen.begin(), seen.end(), StableHash(entry.name))) {
        // The source has it.
      } else if (entry.type == FileType::kDirectory) {
        ASSIGN_OR_RETURN(goes, RemoveDirectory(directory->ino, below, entry.name));
      } else if (Selects(below)) {
        goes = true;
        names.push_back(entry.name);
      }
      all = all && goes;
    }
    if (state_.options.dry) state_.deleted_files += names.size();
    for (std::size_t at = 0; at < names.size() && !state_.options.dry; at += kNamesPerCall) {
      const std::size_t count = std::min(kNamesPerCall, names.size() - at);
      ASSIGN_OR_RETURN(const bool gone,
                       RemoveFiles(directory->ino, path, std::span(names).subspan(at, count)));
      all = all && gone;
    }
    cursor = page.next;
  } while (!cursor.empty());
  return all;
}

Result<bool> ExtraneousRemover::RemoveFiles(Ino directory, const std::string& path,
                                            std::span<const std::string> names) {
  MetaStore& meta = state_.volume.meta();
  const Caller& caller = state_.options.caller;
  auto together = meta.UnlinkMany(state_.ctx(), caller, directory, names, false);
  if (together) {
    state_.deleted_files += *together;
    return true;
  }
  // One that must stay, as an immutable file must, keeps no other.
  bool all = true;
  for (const std::string& name : names) {
    auto gone = meta.Unlink(state_.ctx(), caller, directory, name);
    if (gone) {
      ++state_.deleted_files;
    } else if (!IsNotFound(gone.error())) {
      all = false;
      RETURN_IF_ERROR(state_.FileError(Join(path, name), 0, NotRemoved(gone.error())));
    }
  }
  return all;
}

Result<bool> ExtraneousRemover::RemoveTree(Ino parent, const std::string& path,
                                           const std::string& name) {
  for (int attempt = 1;; ++attempt) {
    auto done =
        state_.volume.meta().RemoveTree(state_.ctx(), state_.options.caller, parent, name, {});
    if (done) {
      state_.deleted_files += done->removed;
      return true;
    }
    if (IsNotFound(done.error())) return true;
    // Somebody puts files into it meanwhile.
    if (done.error().code() == Code::kNotEmpty && attempt < kAttempts) continue;
    RETURN_IF_ERROR(state_.FileError(path, 0, NotRemoved(done.error())));
    return false;
  }
}

Result<bool> ExtraneousRemover::RemoveDirectory(Ino parent, const std::string& path,
                                                const std::string& name) {
  MetaStore& meta = state_.volume.meta();
  const ImportOptions& options = state_.options;
  if (options.selects_all() && options.dry) {
    ++state_.deleted_files;
    return true;
  }
  if (options.selects_all()) return RemoveTree(parent, path, name);
  if (!filter_.Wants(path + "/")) return false;
  ASSIGN_OR_RETURN(const bool emptied, Sweep(path, {}));
  if (!emptied || !InRange(path + "/", options.start, options.end)) return false;
  if (!options.dry) {
    auto gone = meta.Rmdir(state_.ctx(), options.caller, parent, name);
    // Somebody has put something into it meanwhile.
    if (!gone && gone.error().code() == Code::kNotEmpty) return false;
    if (!gone && IsNotFound(gone.error())) return true;
    if (!gone) {
      RETURN_IF_ERROR(state_.FileError(path, 0, NotRemoved(gone.error())));
      return false;
    }
  }
  ++state_.deleted_files;
  return true;
}

}  // namespace paddleop::volume::data
