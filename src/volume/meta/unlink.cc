#include "volume/format/trash.h"
#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

Result<void> CheckRemovable(const Caller& caller, const Attr& dir,
                            const std::optional<Attr>& attr) {
  RETURN_IF_ERROR(CheckDirWritable(caller, dir, /*removing=*/true));
  if (!attr) return {};
  if ((attr->flags & (kFlagImmutable | kFlagAppend)) != 0) {
    return Fail(Code::kPermission, "the entry is immutable or append-only");
  }
  return CheckSticky(caller, dir, *attr);
}

Result<void> CheckTrashAccess(const Caller& caller, Ino parent) {
  if (IsTrash(parent) && caller.uid != 0) {
    return Fail(Code::kPermission, "only user 0 removes from the trash");
  }
  return {};
}

}  // namespace

Result<void> EngineMetaStore::RemoveFile(const Context& ctx, MetaTxn& txn, Changes& changes,
                                         const Removal& removal, const Timestamp& now,
                                         bool keep_edge) {
  const Ino ino = removal.edge.ino;
  if (!keep_edge) txn.DeleteEdge(removal.parent, removal.name);
  if (!removal.attr) return {};
  Attr attr = *removal.attr;
  RETURN_IF_ERROR(Account(ctx, changes, removal.parent, -UsageOf(attr)));
  attr.ctime = now;

  // A hard link whose like is in the trash already would add nothing there.
  const bool to_trash = removal.trash != kNoIno && (attr.flags & kFlagSkipTrash) == 0 &&
                        !(attr.nlink > 1 && removal.in_trash_already);
  if (to_trash) {
    txn.PutEdge(removal.trash, TrashEntryName(removal.parent, ino, removal.name), removal.edge);
    if (attr.parent != kNoIno) {
      attr.parent = removal.trash;
    } else {
      txn.AddParent(ino, removal.trash, 1);
      txn.AddParent(ino, removal.parent, -1);
    }
    txn.UpdateNode(ino, attr);
    return {};
  }

  if (attr.nlink > 1) {
    --attr.nlink;
    if (attr.parent == kNoIno) txn.AddParent(ino, removal.parent, -1);
    txn.UpdateNode(ino, attr);
    return {};
  }
  txn.DeleteXattrs(ino);
  if (attr.parent == kNoIno) txn.DeleteParents(ino);
  if (attr.type == FileType::kFile) {
    std::uint64_t session = 0;
    {
      MutexLock lock(mutex_);
      session = session_;
    }
    if (session > 0 && IsKeptOpen(ino, changes)) {
      attr.nlink = 0;
      txn.UpdateNode(ino, attr);
      txn.Sustain(session, ino);
      changes.sustained.push_back(ino);
      return {};
    }
    txn.QueueDeletion(ino, attr.length, now.seconds);
    changes.deleted.push_back({.ino = ino, .length = attr.length, .deleted = now.seconds});
  } else if (attr.type == FileType::kSymlink) {
    txn.DeleteSymlink(ino);
  }
  txn.DeleteNode(ino);
  changes.usage.space -= static_cast<std::int64_t>(ChargedSpace(attr));
  changes.usage.inodes -= 1;
  return {};
}

Result<void> EngineMetaStore::RemoveDirectory(const Context& ctx, MetaTxn& txn, Changes& changes,
                                              const Removal& removal, const Timestamp& now,
                                              bool keep_edge) {
  const Ino ino = removal.edge.ino;
  if (!keep_edge) txn.DeleteEdge(removal.parent, removal.name);
  txn.DeleteDirUsage(ino);
  RETURN_IF_ERROR(
      Account(ctx, changes, removal.parent, {.length = 0, .space = -4096, .inodes = -1}));
  if (!removal.attr) return {};
  if (removal.trash != kNoIno && (removal.attr->flags & kFlagSkipTrash) == 0) {
    Attr attr = *removal.attr;
    attr.ctime = now;
    attr.parent = removal.trash;
    txn.PutEdge(removal.trash, TrashEntryName(removal.parent, ino, removal.name), removal.edge);
    txn.UpdateNode(ino, attr);
    return {};
  }
  txn.DeleteXattrs(ino);
  txn.DeleteNode(ino);
  changes.usage.space -= 4096;
  changes.usage.inodes -= 1;
  return {};
}

Result<void> EngineMetaStore::Unlink(const Context& ctx, const Caller& caller, Ino parent,
                                     std::string_view name, bool skip_trash) {
  RETURN_IF_ERROR(ValidateName(name));
  RETURN_IF_ERROR(CheckTrashAccess(caller, parent));
  const auto body = [&](MetaTxn& txn, Changes& changes, Ino trash) -> Result<void> {
    const Timestamp now = Now();
    std::optional<Attr> dir;
    std::optional<Edge> edge;
    std::optional<Attr> trash_attr;
    ReadSet entry;
    entry.Attr(parent, &dir).Edge(parent, name, &edge);
    if (trash != kNoIno) entry.Attr(trash, &trash_attr);
    RETURN_IF_ERROR(txn.Read(entry));
    if (!dir) return NoInode(parent);
    if (dir->type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(parent));
    }
    if (!edge) return NoEntry(parent, name);
    if (edge->type == FileType::kDirectory) {
      return Fail(Code::kIsDirectory, "'{}' is a directory", name);
    }
    Removal removal{.parent = parent, .name = name, .edge = *edge, .attr = {}, .trash = trash};
    std::optional<Edge> twin;
    const std::string trash_name = TrashEntryName(parent, edge->ino, name);
    ReadSet reads;
    reads.Attr(edge->ino, &removal.attr);
    if (trash != kNoIno) reads.Edge(trash, trash_name, &twin);
    RETURN_IF_ERROR(txn.Read(reads));
    RETURN_IF_ERROR(CheckTrashDirectory(trash, trash_attr));
    removal.in_trash_already = twin.has_value();
    RETURN_IF_ERROR(CheckRemovable(caller, *dir, removal.attr));
    RETURN_IF_ERROR(RemoveFile(ctx, txn, changes, removal, now, /*keep_edge=*/false));
    if (!IsTrash(parent) && TouchDirectory(*dir, now)) txn.UpdateNode(parent, *dir);
    return {};
  };
  return RunWithTrash(ctx, parent, skip_trash, body);
}

Result<void> EngineMetaStore::Rmdir(const Context& ctx, const Caller& caller, Ino parent,
                                    std::string_view name, bool skip_trash) {
  // Clients remember the inode of the hour and put what is deleted there.
  if (parent == kTrashIno) return Fail(Code::kPermission, "the hours of the trash stay");
  return RemoveEmpty(ctx, caller, parent, name, skip_trash);
}

Result<void> EngineMetaStore::RemoveEmpty(const Context& ctx, const Caller& caller, Ino parent,
                                          std::string_view name, bool skip_trash) {
  if (name == ".") return Fail(Code::kInvalid, "'.' cannot be removed");
  if (name == "..") return Fail(Code::kNotEmpty, "'..' is not empty");
  RETURN_IF_ERROR(ValidateName(name));
  RETURN_IF_ERROR(CheckTrashAccess(caller, parent));
  if (parent == kRootIno && name == kTrashName) {
    return Fail(Code::kPermission, "the trash itself stays");
  }
  const auto body = [&](MetaTxn& txn, Changes& changes, Ino trash) -> Result<void> {
    const Timestamp now = Now();
    std::optional<Attr> dir;
    std::optional<Edge> edge;
    std::optional<Attr> trash_attr;
    ReadSet entry;
    entry.Attr(parent, &dir).Edge(parent, name, &edge);
    if (trash != kNoIno) entry.Attr(trash, &trash_attr);
    RETURN_IF_ERROR(txn.Read(entry));
    if (!dir) return NoInode(parent);
    if (dir->type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(parent));
    }
    if (!edge) return NoEntry(parent, name);
    if (edge->type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory, "'{}' is no directory", name);
    }
    Removal removal{.parent = parent, .name = name, .edge = *edge, .attr = {}, .trash = trash};
    bool has_children = false;
    RETURN_IF_ERROR(
        txn.Read(ReadSet().Attr(edge->ino, &removal.attr).HasChildren(edge->ino, &has_children)));
    RETURN_IF_ERROR(CheckTrashDirectory(trash, trash_attr));
    if (has_children) return Fail(Code::kNotEmpty, "directory '{}' is not empty", name);
    RETURN_IF_ERROR(CheckRemovable(caller, *dir, removal.attr));
    RETURN_IF_ERROR(RemoveDirectory(ctx, txn, changes, removal, now, /*keep_edge=*/false));
    if (!IsTrash(parent)) {
      --dir->nlink;
      dir->mtime = dir->ctime = now;
      txn.UpdateNode(parent, *dir);
    }
    return {};
  };
  RETURN_IF_ERROR(RunWithTrash(ctx, parent, skip_trash, body));
  quotas_.ForgetParents();
  return {};
}

Result<std::uint64_t> EngineMetaStore::UnlinkMany(const Context& ctx, const Caller& caller,
                                                  Ino parent, std::span<const std::string> names,
                                                  bool skip_trash) {
  for (const std::string& name : names) RETURN_IF_ERROR(ValidateName(name));
  RETURN_IF_ERROR(CheckTrashAccess(caller, parent));
  std::uint64_t removed = 0;
  const auto body = [&](MetaTxn& txn, Changes& changes, Ino trash) -> Result<void> {
    removed = 0;
    const Timestamp now = Now();
    std::optional<Attr> dir;
    std::vector<std::optional<Edge>> edges(names.size());
    std::optional<Attr> trash_attr;
    ReadSet entries;
    entries.Attr(parent, &dir);
    if (trash != kNoIno) entries.Attr(trash, &trash_attr);
    for (std::size_t i = 0; i < names.size(); ++i) entries.Edge(parent, names[i], &edges[i]);
    RETURN_IF_ERROR(txn.Read(entries));
    if (!dir) return NoInode(parent);

    std::vector<Removal> removals(names.size());
    std::vector<std::optional<Edge>> twins(names.size());
    std::vector<std::string> trash_names(names.size());
    ReadSet details;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!edges[i] || edges[i]->type == FileType::kDirectory) continue;
      removals[i] = {
          .parent = parent, .name = names[i], .edge = *edges[i], .attr = {}, .trash = trash};
      details.Attr(edges[i]->ino, &removals[i].attr);
      if (trash == kNoIno) continue;
      trash_names[i] = TrashEntryName(parent, edges[i]->ino, names[i]);
      details.Edge(trash, trash_names[i], &twins[i]);
    }
    RETURN_IF_ERROR(txn.Read(details));
    RETURN_IF_ERROR(CheckTrashDirectory(trash, trash_attr));
    // Two names of one file in the same batch: the second sees what the first left.
    std::unordered_set<Ino> seen;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (removals[i].parent == kNoIno) continue;
      Removal& removal = removals[i];
      removal.in_trash_already = twins[i].has_value();
      RETURN_IF_ERROR(CheckRemovable(caller, *dir, removal.attr));
      if (removal.attr && removal.attr->nlink > 1 && !seen.insert(removal.edge.ino).second) {
        continue;  // its turn comes with the caller's next batch
      }
      RETURN_IF_ERROR(RemoveFile(ctx, txn, changes, removal, now, /*keep_edge=*/false));
      ++removed;
    }
    if (removed > 0 && !IsTrash(parent) && TouchDirectory(*dir, now)) txn.UpdateNode(parent, *dir);
    return {};
  };
  RETURN_IF_ERROR(RunWithTrash(ctx, parent, skip_trash, body));
  return removed;
}

}  // namespace paddleop::volume
