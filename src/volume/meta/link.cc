#include "volume/meta/internal/store.h"

namespace paddleop::volume {

Result<Entry> EngineMetaStore::Link(const Context& ctx, const Caller& caller, Ino ino, Ino parent,
                                    std::string_view name) {
  RETURN_IF_ERROR(CheckNewName(parent, name));
  if (IsTrash(parent)) return Fail(Code::kPermission, "nothing is linked into the trash");
  Entry linked{.ino = ino, .attr = {}};
  const Timestamp now = Now();
  RETURN_IF_ERROR(Run(ctx, [&](MetaTxn& txn, Changes& changes) -> Result<void> {
    std::optional<Attr> dir;
    std::optional<Attr> attr;
    std::optional<Edge> edge;
    RETURN_IF_ERROR(
        txn.Read(ReadSet().Attr(parent, &dir).Attr(ino, &attr).Edge(parent, name, &edge)));
    if (!dir) return NoInode(parent);
    if (!attr || attr->nlink == 0) return NoInode(ino);
    if (dir->type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(parent));
    }
    if (IsTrash(dir->parent)) return Fail(Code::kNotFound, "the directory is in the trash");
    if (attr->type == FileType::kDirectory) {
      return Fail(Code::kPermission, "a directory has one name only");
    }
    if (IsTrash(attr->parent)) return Fail(Code::kPermission, "the file is in the trash");
    if ((attr->flags & (kFlagImmutable | kFlagAppend)) != 0) {
      return Fail(Code::kPermission, "the file is immutable or append-only");
    }
    if (edge) return Fail(Code::kAlreadyExists, "'{}' exists in directory {}", name, ToInt(parent));
    RETURN_IF_ERROR(CheckDirWritable(caller, *dir, /*removing=*/false));
    const DirUsage usage = UsageOf(*attr);
    ASSIGN_OR_RETURN(const auto chain, quotas_.Chain(ctx, parent));
    RETURN_IF_ERROR(quotas_.CheckDirectories(ctx, chain, usage.space, 1));

    const Ino first_parent = attr->parent;
    attr->parent = kNoIno;
    attr->ctime = now;
    ++attr->nlink;
    txn.PutEdge(parent, name, {.ino = ino, .type = attr->type});
    txn.UpdateNode(ino, *attr);
    if (first_parent != kNoIno) txn.AddParent(ino, first_parent, 1);
    txn.AddParent(ino, parent, 1);
    if (TouchDirectory(*dir, now)) txn.UpdateNode(parent, *dir);
    linked.attr = *attr;
    return Account(ctx, changes, parent, usage);
  }));
  return linked;
}

}  // namespace paddleop::volume
