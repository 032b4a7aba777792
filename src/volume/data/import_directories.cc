#include "volume/data/internal/import_directories.h"

#include "volume/format/reserved_names.h"

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
    if (at.ino == kRootIno && IsReservedInRoot(part)) {
      return Fail(Code::kInvalid, "destination {}: \"{}\" is reserved in the root of a volume",
                  state_.options.to, part);
    }
    auto next = FindOrMake(at, part, /*replace=*/false);
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
                                                               std::string_view name,
                                                               bool replace) {
  MetaStore& meta = state_.volume.meta();
  const ImportOptions& options = state_.options;
  const Context& ctx = state_.ctx();
  const auto find = [&]() -> Result<Place> {
    ASSIGN_OR_RETURN(const Entry found, meta.Lookup(ctx, {}, parent.ino, name));
    if (found.attr.type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory,
                  "\"{}\" is a file in the volume, and a directory is needed; remove it there, or "
                  "import everything with --delete-dst",
                  name);
    }
    return Place{.ino = found.ino, .fresh = false};
  };
  if (parent.ino == kNoIno) return Place{.ino = kNoIno, .fresh = true};
  if (!parent.fresh) {
    auto found = find();
    const bool in_the_way = !found && found.error().code() == Code::kNotDirectory;
    if (in_the_way && replace) {
      auto gone = options.dry ? Result<void>{} : meta.Unlink(ctx, options.caller, parent.ino, name);
      // Another part of the same import may have been faster, and made the directory already.
      const bool by_others = !gone && (gone.error().code() == Code::kNotFound ||
                                       gone.error().code() == Code::kIsDirectory);
      if (!by_others) {
        RETURN_IF_ERROR(gone);
        ++state_.deleted_files;
      }
    } else if (found || !IsNotFound(found.error())) {
      return found;
    }
  }
  if (options.dry) return Place{.ino = kNoIno, .fresh = true};
  // As files are committed: what --perms has set on the directory above is not meant for us.
  Caller maker = options.caller;
  maker.check_permissions = false;
  auto made = meta.Mkdir(ctx, maker, parent.ino, name, 0777);
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
    Result<Place> place =
        FindOrMake(above, part, state_.options.delete_dst && state_.options.selects_all());
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
  RETURN_IF_ERROR(SetOwner(state_, {.ino = place.ino, .attr = attr}, owner));
  return place;
}

Result<void> SetOwner(ImportState& state, const Entry& entry, const object::FileOwner& owner) {
  MetaStore& meta = state.volume.meta();
  const Caller& caller = state.options.caller;
  Attr attr = entry.attr;
  if (attr.uid != owner.uid || attr.gid != owner.gid) {
    ASSIGN_OR_RETURN(
        attr, meta.SetAttr(state.ctx(), caller, entry.ino, {.uid = owner.uid, .gid = owner.gid}));
  }
  // Afterwards: another owner takes setuid and setgid away.
  if (attr.mode == owner.mode) return {};
  RETURN_IF_ERROR(meta.SetAttr(state.ctx(), caller, entry.ino, {.mode = owner.mode}));
  return {};
}

}  // namespace paddleop::volume::data
