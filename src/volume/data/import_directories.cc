#include "volume/data/internal/import_directories.h"

namespace paddleop::volume::data {
namespace {

// The first part of `path`, which loses it.
std::string_view TakePart(std::string_view& path) {
  const std::size_t slash = path.find('/');
  const std::string_view part = path.substr(0, slash);
  path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  return part;
}

}  // namespace

Result<void> ImportDirectories::Open() {
  Place at{.ino = kRootIno, .fresh = false};
  std::string_view path = state_.options.to;
  while (!path.empty()) {
    const std::string_view part = TakePart(path);
    if (part.empty()) continue;
    auto next = FindOrMake(at, part);
    if (!next) {
      return std::unexpected(std::move(next).error().Wrap(
          fmt::format("destination {} in the volume", state_.options.to)));
    }
    at = *next;
  }
  root_ = at;
  return {};
}

Result<ImportDirectories::Place> ImportDirectories::FindOrMake(const Place& parent,
                                                               std::string_view name) {
  MetaStore& meta = state_.volume.meta();
  const Context& ctx = state_.ctx();
  const auto find = [&]() -> Result<Place> {
    ASSIGN_OR_RETURN(const Entry found, meta.Lookup(ctx, {}, parent.ino, name));
    if (found.attr.type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory, "\"{}\" is a file in the volume, and a directory is needed",
                  name);
    }
    return Place{.ino = found.ino, .fresh = false};
  };
  if (parent.ino == kNoIno) return Place{.ino = kNoIno, .fresh = true};
  if (!parent.fresh) {
    auto found = find();
    if (found || !IsNotFound(found.error())) return found;
  }
  if (state_.options.dry) return Place{.ino = kNoIno, .fresh = true};
  auto made = meta.Mkdir(ctx, state_.options.caller, parent.ino, name, 0777);
  if (made) {
    ++state_.made_directories;
    return Place{.ino = made->ino, .fresh = true};
  }
  // Another part of the same import was faster.
  if (IsAlreadyExists(made.error())) return find();
  return std::unexpected(std::move(made).error());
}

Result<ImportDirectories::Place> ImportDirectories::Enter(std::string_view path) {
  std::size_t depth = 0;
  while (!path.empty()) {
    const std::string_view part = TakePart(path);
    if (depth < levels_.size() && levels_[depth].name == part) {
      if (!levels_[depth].place) return levels_[depth].place;
      ++depth;
      continue;
    }
    levels_.erase(levels_.begin() + static_cast<std::ptrdiff_t>(depth), levels_.end());
    const Place above = depth == 0 ? root_ : *levels_[depth - 1].place;
    Result<Place> place = FindOrMake(above, part);
    // A volume that is away or full now may not be so for the next file.
    const bool lasting = place || (place.error().code() != Code::kUnavailable &&
                                   place.error().code() != Code::kDeadline);
    if (!lasting) return place;
    levels_.push_back({std::string(part), place});
    if (!place) return place;
    ++depth;
  }
  return depth == 0 ? root_ : levels_[depth - 1].place;
}

Result<ImportDirectories::Place> ImportDirectories::Enter(std::string_view path,
                                                          const object::FileOwner& owner) {
  ASSIGN_OR_RETURN(const Place place, Enter(path));
  if (place.ino == kNoIno || state_.options.dry || path.empty()) return place;
  MetaStore& meta = state_.volume.meta();
  ASSIGN_OR_RETURN(const Attr attr, meta.GetAttr(state_.ctx(), place.ino));
  if (attr.mode == owner.mode && attr.uid == owner.uid && attr.gid == owner.gid) return place;
  RETURN_IF_ERROR(meta.SetAttr(state_.ctx(), state_.options.caller, place.ino,
                               {.mode = owner.mode, .uid = owner.uid, .gid = owner.gid}));
  return place;
}

}  // namespace paddleop::volume::data
