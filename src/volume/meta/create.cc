#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

// Owner, group and mode of a new child, as Linux does it.
Attr NewChild(const Caller& caller, const Attr& dir, Ino parent, FileType type, std::uint16_t mode,
              const Timestamp& now) {
  Attr attr;
  attr.type = type;
  attr.mode = mode & 07777;
  attr.uid = caller.uid;
  attr.gid = caller.gid;
  attr.flags = dir.flags & kFlagSkipTrash;
  attr.parent = parent;
  attr.atime = attr.mtime = attr.ctime = now;
  attr.nlink = type == FileType::kDirectory ? 2 : 1;
  attr.length = type == FileType::kDirectory ? 4096 : 0;
  if ((dir.mode & 02000) != 0) {
    attr.gid = dir.gid;
    if (type == FileType::kDirectory) {
      attr.mode |= 02000;
    } else if ((attr.mode & 02010) == 02010 && caller.uid != 0 && !caller.InGroup(dir.gid)) {
      attr.mode &= static_cast<std::uint16_t>(~02000);
    }
  }
  return attr;
}

}  // namespace

Result<Entry> EngineMetaStore::MakeNode(const Context& ctx, const Caller& caller, Ino parent,
                                        std::string_view name, const NewNode& node,
                                        std::optional<Entry>* existing) {
  RETURN_IF_ERROR(CheckNewName(parent, name));
  if (IsTrash(parent)) return Fail(Code::kNotFound, "nothing is made in the trash");
  RETURN_IF_ERROR(CheckWritable());
  ASSIGN_OR_RETURN(const Ino ino, NewInodes(ctx, 1));
  const Timestamp now = Now();
  Entry made{.ino = ino, .attr = {}};
  RETURN_IF_ERROR(Run(ctx, [&](MetaTxn& txn, Changes& changes) -> Result<void> {
    if (existing != nullptr) existing->reset();
    std::optional<Attr> dir;
    std::optional<Edge> edge;
    std::optional<Attr> attr;
    // A name is read before its inode, and not every engine keeps others from removing both in
    // between: only if the name stays it points nowhere.
    for (std::optional<Edge> before;; before = edge) {
      RETURN_IF_ERROR(txn.Read(ReadSet().Attr(parent, &dir).Edge(parent, name, &edge)));
      if (!edge || existing == nullptr) break;
      if (edge == before) return Fail(Code::kCorrupt, "'{}' points to no inode", name);
      RETURN_IF_ERROR(txn.Read(ReadSet().Attr(edge->ino, &attr)));
      if (attr) break;
    }
    if (!dir) return NoInode(parent);
    if (dir->type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(parent));
    }
    if (IsTrash(dir->parent)) return Fail(Code::kNotFound, "the directory is in the trash");
    if (edge) {
      if (existing == nullptr) {
        return Fail(Code::kAlreadyExists, "'{}' exists in directory {}", name, ToInt(parent));
      }
      *existing = Entry{.ino = edge->ino, .attr = *std::move(attr)};
      return {};
    }
    RETURN_IF_ERROR(CheckDirWritable(caller, *dir, /*removing=*/false));
    RETURN_IF_ERROR(CheckRoom(ctx, parent, 4096, 1));

    const auto mode = static_cast<std::uint16_t>(
        node.type == FileType::kSymlink ? 0777 : node.mode & ~caller.umask);
    made.attr = NewChild(caller, *dir, parent, node.type, mode, now);
    made.attr.rdev = node.rdev;
    if (node.type == FileType::kSymlink) made.attr.length = node.target.size();
    txn.InsertNode(ino, made.attr);
    txn.PutEdge(parent, name, {.ino = ino, .type = node.type});
    if (node.type == FileType::kSymlink) txn.PutSymlink(ino, node.target);
    bool dir_changed = TouchDirectory(*dir, now);
    if (node.type == FileType::kDirectory) {
      ++dir->nlink;
      dir_changed = true;
      if (dir_stats()) txn.InitDirUsage(ino);
    }
    if (dir_changed) txn.UpdateNode(parent, *dir);
    changes.usage = {.space = 4096, .inodes = 1};
    return Account(ctx, changes, parent, {.length = 0, .space = 4096, .inodes = 1});
  }));
  return made;
}

Result<Entry> EngineMetaStore::Mkdir(const Context& ctx, const Caller& caller, Ino parent,
                                     std::string_view name, std::uint16_t mode) {
  return MakeNode(ctx, caller, parent, name,
                  {.type = FileType::kDirectory, .mode = mode, .rdev = 0, .target = {}}, nullptr);
}

Result<Entry> EngineMetaStore::Mknod(const Context& ctx, const Caller& caller, Ino parent,
                                     std::string_view name, FileType type, std::uint16_t mode,
                                     std::uint32_t rdev) {
  if (type == FileType::kDirectory || type == FileType::kSymlink ||
      !IsValidType(static_cast<std::uint8_t>(type))) {
    return Fail(Code::kInvalid, "mknod does not make type {}", static_cast<int>(type));
  }
  return MakeNode(ctx, caller, parent, name,
                  {.type = type, .mode = mode, .rdev = rdev, .target = {}}, nullptr);
}

Result<Entry> EngineMetaStore::Create(const Context& ctx, const Caller& caller, Ino parent,
                                      std::string_view name, std::uint16_t mode, bool exclusive) {
  for (;;) {
    std::optional<Entry> existing;
    ASSIGN_OR_RETURN(Entry entry,
                     MakeNode(ctx, caller, parent, name,
                              {.type = FileType::kFile, .mode = mode, .rdev = 0, .target = {}},
                              exclusive ? nullptr : &existing));
    if (!existing) {
      NoteMade(entry.ino);
      return entry;
    }
    if (existing->attr.type == FileType::kDirectory) {
      return Fail(Code::kIsDirectory, "'{}' is a directory", name);
    }
    if (existing->attr.type != FileType::kFile) {
      return Fail(Code::kInvalid, "'{}' is not a regular file", name);
    }
    // As opening it for writing does.
    RETURN_IF_ERROR(CheckAccess(caller, existing->attr, kMayWrite));
    if ((existing->attr.flags & kFlagImmutable) != 0) {
      return Fail(Code::kPermission, "the file is immutable");
    }
    auto attr = NoteOpen(ctx, existing->ino);
    if (attr) return Entry{.ino = existing->ino, .attr = *std::move(attr)};
    // Removed meanwhile: then it is to be made.
    if (!IsNotFound(attr.error())) return std::unexpected(std::move(attr).error());
  }
}

Result<Entry> EngineMetaStore::Symlink(const Context& ctx, const Caller& caller, Ino parent,
                                       std::string_view name, std::string_view target) {
  if (target.empty() || target.size() > kMaxSymlink ||
      target.find('\0') != std::string_view::npos) {
    return Fail(target.size() > kMaxSymlink ? Code::kNameTooLong : Code::kInvalid,
                "target of {} bytes: 1 to {} without NUL", target.size(), kMaxSymlink);
  }
  return MakeNode(ctx, caller, parent, name,
                  {.type = FileType::kSymlink, .mode = 0777, .rdev = 0, .target = target}, nullptr);
}

}  // namespace paddleop::volume
