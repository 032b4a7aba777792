#include "volume/format/trash.h"

#include <algorithm>

#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

constexpr int kMaxDepth = 4096;

// Everything one rename looks at.
struct RenameState {
  Ino old_parent;
  std::string_view old_name;
  Ino new_parent;
  std::string_view new_name;
  std::optional<Attr> old_dir;
  std::optional<Attr> new_dir;  // unused if both names lie in one directory
  std::optional<Edge> from;
  std::optional<Edge> to;
  std::optional<Attr> from_attr;
  std::optional<Attr> to_attr;
  bool to_has_children = false;
  bool twin_in_trash = false;

  bool one_directory() const { return old_parent == new_parent; }
  Attr& target_dir() { return one_directory() ? *old_dir : *new_dir; }
};

Result<void> ReadNamesAndNodes(MetaTxn& txn, Ino trash, RenameState& s) {
  ReadSet first;
  first.Attr(s.old_parent, &s.old_dir)
      .Edge(s.old_parent, s.old_name, &s.from)
      .Edge(s.new_parent, s.new_name, &s.to);
  if (!s.one_directory()) first.Attr(s.new_parent, &s.new_dir);
  std::optional<Attr> trash_attr;
  if (trash != kNoIno) first.Attr(trash, &trash_attr);
  RETURN_IF_ERROR(txn.Read(first));
  if (!s.old_dir) return NoInode(s.old_parent);
  if (!s.one_directory() && !s.new_dir) return NoInode(s.new_parent);
  if (s.old_dir->type != FileType::kDirectory || s.target_dir().type != FileType::kDirectory) {
    return Fail(Code::kNotDirectory, "names lie in directories only");
  }
  if (!s.from) return NoEntry(s.old_parent, s.old_name);

  ReadSet second;
  second.Attr(s.from->ino, &s.from_attr);
  std::optional<Edge> twin;
  std::string trash_name;
  if (s.to) {
    second.Attr(s.to->ino, &s.to_attr);
    if (s.to->type == FileType::kDirectory) second.HasChildren(s.to->ino, &s.to_has_children);
    if (trash != kNoIno) {
      trash_name = TrashEntryName(s.new_parent, s.to->ino, s.new_name);
      second.Edge(trash, trash_name, &twin);
    }
  }
  RETURN_IF_ERROR(txn.Read(second));
  if (s.to) RETURN_IF_ERROR(CheckTrashDirectory(trash, trash_attr));
  s.twin_in_trash = twin.has_value();
  return {};
}

// Names are read before the inodes they lead to, and not every engine keeps others from removing
// both in between. A volume is damaged only if a name without an inode stays.
Result<void> ReadState(MetaTxn& txn, Ino trash, RenameState& s) {
  for (;;) {
    RETURN_IF_ERROR(ReadNamesAndNodes(txn, trash, s));
    if (s.from_attr && (!s.to || s.to_attr)) return {};
    std::optional<Edge> from;
    std::optional<Edge> to;
    RETURN_IF_ERROR(txn.Read(
        ReadSet().Edge(s.old_parent, s.old_name, &from).Edge(s.new_parent, s.new_name, &to)));
    if (from != s.from || to != s.to) continue;
    if (!s.from_attr) return Fail(Code::kCorrupt, "'{}' points to no inode", s.old_name);
    return {};
  }
}

Result<void> CheckMayMove(const Caller& caller, const Attr& dir, const Attr& child) {
  RETURN_IF_ERROR(CheckDirWritable(caller, dir, /*removing=*/true));
  if ((child.flags & (kFlagImmutable | kFlagAppend)) != 0) {
    return Fail(Code::kPermission, "the entry is immutable or append-only");
  }
  return CheckSticky(caller, dir, child);
}

// A directory must not come to lie below itself.
Result<void> CheckNoLoop(MetaTxn& txn, Ino moved, Ino new_parent) {
  Ino at = new_parent;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (at == moved) return Fail(Code::kInvalid, "a directory cannot be moved below itself");
    if (at == kRootIno || IsTrash(at)) return {};
    std::optional<Attr> attr;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(at, &attr)));
    if (!attr) return NoInode(at);
    at = attr->parent;
  }
  return Fail(Code::kCorrupt, "directory {} lies more than {} levels deep", ToInt(new_parent),
              kMaxDepth);
}

Result<void> CheckTypes(const RenameState& s) {
  const bool from_dir = s.from->type == FileType::kDirectory;
  const bool to_dir = s.to->type == FileType::kDirectory;
  if (to_dir && !from_dir) return Fail(Code::kIsDirectory, "'{}' is a directory", s.new_name);
  if (from_dir && !to_dir) return Fail(Code::kNotDirectory, "'{}' is no directory", s.new_name);
  if (to_dir && s.to_has_children) {
    return Fail(Code::kNotEmpty, "directory '{}' is not empty", s.new_name);
  }
  return {};
}

// Moves one inode from directory `from` to `to`; `attr` is its own.
void MoveNode(MetaTxn& txn, Ino ino, Attr attr, Ino from, Ino to, const Timestamp& now) {
  attr.ctime = now;
  if (from != to) {
    if (attr.parent != kNoIno) {
      attr.parent = to;
    } else {
      txn.AddParent(ino, to, 1);
      txn.AddParent(ino, from, -1);
    }
  }
  txn.UpdateNode(ino, attr);
}

// Writes the directories a rename has changed.
void WriteDirectories(MetaTxn& txn, RenameState& s, const Attr& old_before, const Attr& new_before,
                      bool (*touch)(Attr&, const Timestamp&), const Timestamp& now) {
  if (!IsTrash(s.old_parent)) {
    const bool touched = touch(*s.old_dir, now);
    if (touched || s.old_dir->nlink != old_before.nlink) txn.UpdateNode(s.old_parent, *s.old_dir);
  }
  if (!s.one_directory()) {
    const bool touched = touch(*s.new_dir, now);
    if (touched || s.new_dir->nlink != new_before.nlink) txn.UpdateNode(s.new_parent, *s.new_dir);
  }
}

}  // namespace

Result<Entry> EngineMetaStore::Rename(const Context& ctx, const Caller& caller, Ino old_parent,
                                      std::string_view old_name, Ino new_parent,
                                      std::string_view new_name, RenameMode mode) {
  RETURN_IF_ERROR(ValidateName(old_name));
  RETURN_IF_ERROR(CheckNewName(new_parent, new_name));
  if (IsTrash(new_parent)) return Fail(Code::kPermission, "nothing is moved into the trash");
  if (IsTrash(old_parent) && caller.uid != 0) {
    return Fail(Code::kPermission, "only user 0 takes things out of the trash");
  }
  if (IsTrash(old_parent) && mode == RenameMode::kExchange) {
    return Fail(Code::kPermission, "nothing is moved into the trash");
  }
  if (old_parent == kTrashIno) return Fail(Code::kPermission, "the hours of the trash stay");
  // The hour's directory in the trash is only needed if something is replaced.
  bool replaces = false;
  if (mode == RenameMode::kReplace) {
    ASSIGN_OR_RETURN(const auto target, engine_->FindEntry(ctx, new_parent, new_name));
    replaces = target.has_value();
  }
  bool appeared = false;  // after that
  Entry moved;
  bool moved_directory = false;
  const auto body = [&](MetaTxn& txn, Changes& changes, Ino trash) -> Result<void> {
    const Timestamp now = Now();
    appeared = false;
    RenameState s{.old_parent = old_parent,
                  .old_name = old_name,
                  .new_parent = new_parent,
                  .new_name = new_name,
                  .old_dir = {},
                  .new_dir = {},
                  .from = {},
                  .to = {},
                  .from_attr = {},
                  .to_attr = {}};
    RETURN_IF_ERROR(ReadState(txn, trash, s));
    moved = {.ino = s.from->ino, .attr = *s.from_attr};
    moved_directory = s.from->type == FileType::kDirectory;
    if (mode == RenameMode::kNoReplace && s.to) {
      return Fail(Code::kAlreadyExists, "'{}' exists in directory {}", new_name, ToInt(new_parent));
    }
    if (mode == RenameMode::kExchange && !s.to) return NoEntry(new_parent, new_name);
    // Two names of one file: POSIX leaves both.
    if (s.to && s.to->ino == s.from->ino) return {};
    if (IsTrash(s.target_dir().parent))
      return Fail(Code::kNotFound, "the directory is in the trash");

    RETURN_IF_ERROR(CheckMayMove(caller, *s.old_dir, *s.from_attr));
    RETURN_IF_ERROR(CheckDirWritable(caller, s.target_dir(), /*removing=*/s.to.has_value()));
    if (s.to && s.to_attr) RETURN_IF_ERROR(CheckMayMove(caller, s.target_dir(), *s.to_attr));
    const bool from_dir = s.from->type == FileType::kDirectory;
    const bool to_dir = s.to && s.to->type == FileType::kDirectory;
    if (!s.one_directory()) {
      if (from_dir) RETURN_IF_ERROR(CheckNoLoop(txn, s.from->ino, new_parent));
      if (mode == RenameMode::kExchange && to_dir) {
        RETURN_IF_ERROR(CheckNoLoop(txn, s.to->ino, old_parent));
      }
    }
    const Attr old_before = *s.old_dir;
    const Attr new_before = s.target_dir();

    if (mode == RenameMode::kExchange) {
      if (!s.to_attr) return Fail(Code::kCorrupt, "'{}' points to no inode", new_name);
      RETURN_IF_ERROR(AccountMove(ctx, changes, s.from->ino, *s.from_attr, old_parent, new_parent));
      RETURN_IF_ERROR(AccountMove(ctx, changes, s.to->ino, *s.to_attr, new_parent, old_parent));
      txn.PutEdge(old_parent, old_name, *s.to);
      txn.PutEdge(new_parent, new_name, *s.from);
      MoveNode(txn, s.from->ino, *s.from_attr, old_parent, new_parent, now);
      MoveNode(txn, s.to->ino, *s.to_attr, new_parent, old_parent, now);
      if (!s.one_directory() && from_dir != to_dir) {
        (from_dir ? s.old_dir : s.new_dir)->nlink -= 1;
        (from_dir ? s.new_dir : s.old_dir)->nlink += 1;
      }
      WriteDirectories(txn, s, old_before, new_before, &TouchDirectory, now);
      return {};
    }

    if (s.to) {
      RETURN_IF_ERROR(CheckTypes(s));
      if (!replaces && trash_days() > 0) {
        appeared = true;
        return Fail(Code::kConflict, "'{}' has appeared meanwhile", new_name);
      }
      const Removal removal{.parent = new_parent,
                            .name = new_name,
                            .edge = *s.to,
                            .attr = s.to_attr,
                            .trash = trash,
                            .in_trash_already = s.twin_in_trash};
      if (to_dir) {
        RETURN_IF_ERROR(RemoveDirectory(ctx, txn, changes, removal, now, /*keep_edge=*/true));
        s.target_dir().nlink -= 1;
      } else {
        RETURN_IF_ERROR(RemoveFile(ctx, txn, changes, removal, now, /*keep_edge=*/true));
      }
    }
    RETURN_IF_ERROR(AccountMove(ctx, changes, s.from->ino, *s.from_attr, old_parent, new_parent));
    txn.DeleteEdge(old_parent, old_name);
    txn.PutEdge(new_parent, new_name, *s.from);
    MoveNode(txn, s.from->ino, *s.from_attr, old_parent, new_parent, now);
    if (from_dir && !s.one_directory()) {
      s.old_dir->nlink -= 1;
      s.new_dir->nlink += 1;
    }
    WriteDirectories(txn, s, old_before, new_before, &TouchDirectory, now);
    // Directories lose their statistics when they go to the trash; this one is back.
    if (from_dir && IsTrash(old_parent) && dir_stats()) txn.AddDirUsage(s.from->ino, {});
    moved.attr.ctime = now;
    if (moved.attr.parent != kNoIno) moved.attr.parent = new_parent;
    return {};
  };
  auto done = RunWithTrash(ctx, new_parent, /*skip_trash=*/!replaces, body);
  if (!done && appeared) {
    replaces = true;
    done = RunWithTrash(ctx, new_parent, /*skip_trash=*/false, body);
  }
  if (!done) return std::unexpected(std::move(done).error());
  if (moved_directory) quotas_.ForgetParents();
  return moved;
}

Result<void> EngineMetaStore::AccountMove(const Context& ctx, Changes& changes, Ino ino,
                                          const Attr& attr, Ino from, Ino to) {
  if (from == to) return {};
  const DirUsage usage = UsageOf(attr);
  if (dir_stats()) {
    if (!IsTrash(from)) changes.dirs[from] += -usage;
    changes.dirs[to] += usage;
  }
  std::vector<Ino> old_chain;
  if (!IsTrash(from)) {
    ASSIGN_OR_RETURN(old_chain, quotas_.Chain(ctx, from));
  }
  ASSIGN_OR_RETURN(const std::vector<Ino> new_chain, quotas_.Chain(ctx, to));
  if (old_chain == new_chain) return {};
  // Quotas count whole trees.
  Usage tree{.space = usage.space, .inodes = 1};
  if (attr.type == FileType::kDirectory) {
    ASSIGN_OR_RETURN(const TreeSummary summary, Summarize(ctx, ino));
    tree = {.space = static_cast<std::int64_t>(summary.space),
            .inodes = static_cast<std::int64_t>(summary.files + summary.directories)};
  }
  std::vector<Ino> entered;
  for (const Ino quota : new_chain) {
    if (std::find(old_chain.begin(), old_chain.end(), quota) == old_chain.end()) {
      entered.push_back(quota);
      changes.quotas[quota].space += tree.space;
      changes.quotas[quota].inodes += tree.inodes;
    }
  }
  for (const Ino quota : old_chain) {
    if (std::find(new_chain.begin(), new_chain.end(), quota) == new_chain.end()) {
      changes.quotas[quota].space -= tree.space;
      changes.quotas[quota].inodes -= tree.inodes;
    }
  }
  return quotas_.CheckDirectories(ctx, entered, tree.space, tree.inodes);
}

}  // namespace paddleop::volume
