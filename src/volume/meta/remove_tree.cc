#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

struct Frame {
  Ino parent;
  std::string name;
  Ino ino;
  std::string cursor;                                    // of the next page
  std::vector<std::pair<std::string, Ino>> directories;  // still to be removed
};

}  // namespace

Result<RemoveTreeDone> EngineMetaStore::RemoveTree(const Context& ctx, const Caller& caller,
                                                   Ino parent, std::string_view name,
                                                   const RemoveTreeOptions& options) {
  // As for Rmdir: an hour of the trash stays, empty.
  return RemoveAll(ctx, caller, parent, name, options, /*keep_top=*/parent == kTrashIno);
}

// Depth first, with a stack of its own: a tree may be deeper than a thread's stack. A directory is
// read to its end and then from its beginning until nothing is left: to begin after each page would
// make engines walk over the place of all that is gone already.
Result<RemoveTreeDone> EngineMetaStore::RemoveAll(const Context& ctx, const Caller& caller,
                                                  Ino parent, std::string_view name,
                                                  const RemoveTreeOptions& options, bool keep_top) {
  RETURN_IF_ERROR(ValidateName(name));
  RETURN_IF_ERROR(CheckWritable());
  RemoveTreeDone done;
  ASSIGN_OR_RETURN(const auto found, engine_->FindEntry(ctx, parent, name));
  if (!found) return NoEntry(parent, name);
  if (found->edge.type != FileType::kDirectory) {
    RETURN_IF_ERROR(Unlink(ctx, caller, parent, name, options.skip_trash));
    done.removed = 1;
    return done;
  }
  std::vector<Frame> stack;
  stack.push_back({.parent = parent,
                   .name = std::string(name),
                   .ino = found->edge.ino,
                   .cursor = {},
                   .directories = {}});
  while (!stack.empty()) {
    RETURN_IF_ERROR(ctx.Check());
    Frame& frame = stack.back();
    if (!frame.directories.empty()) {
      auto [child, ino] = std::move(frame.directories.back());
      frame.directories.pop_back();
      const Ino above = frame.ino;
      stack.push_back(
          {.parent = above, .name = std::move(child), .ino = ino, .cursor = {}, .directories = {}});
      continue;
    }
    const bool from_start = frame.cursor.empty();
    ASSIGN_OR_RETURN(DirPage page, engine_->ReadDir(ctx, frame.ino, frame.cursor,
                                                    engine_->BatchSize(), /*with_attrs=*/false));
    frame.cursor = page.next;
    if (page.entries.empty() && page.next.empty() && from_start) {
      if (keep_top && stack.size() == 1) return done;
      auto gone = RemoveEmpty(ctx, caller, frame.parent, frame.name, options.skip_trash);
      // An engine may list an entry twice; the second time it is not there any more.
      const bool listed_twice = !gone && IsNotFound(gone.error()) && stack.size() > 1;
      if (!gone && !listed_twice) return std::unexpected(std::move(gone).error());
      if (gone) ++done.removed;
      stack.pop_back();
      continue;
    }
    std::vector<std::string> files;
    for (DirEntry& entry : page.entries) {
      if (entry.type == FileType::kDirectory) {
        frame.directories.emplace_back(std::move(entry.name), entry.ino);
      } else {
        files.push_back(std::move(entry.name));
      }
    }
    if (files.empty()) continue;
    ASSIGN_OR_RETURN(const std::uint64_t removed,
                     UnlinkMany(ctx, caller, frame.ino, files, options.skip_trash));
    done.removed += removed;
    RETURN_IF_ERROR(deletions_.WaitForRoom(ctx));
  }
  return done;
}

}  // namespace paddleop::volume
