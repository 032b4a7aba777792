#include "volume/meta/internal/store.h"

namespace paddleop::volume {

bool EngineMetaStore::IsOpen(Ino ino) {
  MutexLock lock(open_mutex_);
  return open_files_.contains(ino);
}

bool EngineMetaStore::IsThrownAway(Ino ino, const Attr& attr) {
  if (!IsTrash(attr.parent)) return false;
  MutexLock lock(open_mutex_);
  const auto open = open_files_.find(ino);
  return open == open_files_.end() || open->second.from_trash;
}

void EngineMetaStore::NoteOpen(Ino ino, const Attr& attr) {
  MutexLock lock(open_mutex_);
  const auto [open, first] = open_files_.try_emplace(ino);
  if (first) open->second.from_trash = IsTrash(attr.parent);
  ++open->second.count;
}

Result<Attr> EngineMetaStore::Open(const Context& ctx, const Caller& caller, Ino ino,
                                   unsigned mask) {
  ASSIGN_OR_RETURN(Attr attr, GetAttr(ctx, ino));
  if (attr.type == FileType::kDirectory && (mask & kMayWrite) != 0) {
    return Fail(Code::kIsDirectory, "inode {} is a directory", ToInt(ino));
  }
  RETURN_IF_ERROR(CheckAccess(caller, attr, mask));
  if ((mask & kMayWrite) != 0) {
    RETURN_IF_ERROR(CheckWritable());
    if ((attr.flags & kFlagImmutable) != 0) return Fail(Code::kPermission, "the file is immutable");
    if (IsThrownAway(ino, attr)) return Fail(Code::kPermission, "the file is in the trash");
  }
  NoteOpen(ino, attr);
  return attr;
}

Result<void> EngineMetaStore::Close(const Context& ctx, Ino ino) {
  {
    MutexLock lock(open_mutex_);
    const auto open = open_files_.find(ino);
    if (open == open_files_.end()) {
      return Fail(Code::kInvalid, "inode {} is not open", ToInt(ino));
    }
    if (--open->second.count > 0) return {};
    open_files_.erase(open);
    if (sustained_.erase(ino) == 0) return {};
  }
  std::uint64_t session = 0;
  {
    MutexLock lock(mutex_);
    session = session_;
  }
  return DeleteSustained(ctx, session, ino);
}

Result<void> EngineMetaStore::DeleteSustained(const Context& ctx, std::uint64_t sid, Ino ino) {
  return Run(ctx, [&](MetaTxn& txn, Changes& changes) -> Result<void> {
    const std::int64_t now = NowSeconds();
    std::optional<Attr> attr;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(ino, &attr)));
    txn.Unsustain(sid, ino);
    if (!attr || attr->nlink > 0) return {};
    txn.QueueDeletion(ino, attr->length, now);
    txn.DeleteNode(ino);
    changes.usage = {.space = -static_cast<std::int64_t>(ChargedSpace(*attr)), .inodes = -1};
    changes.deleted.push_back({.ino = ino, .length = attr->length, .deleted = now});
    return {};
  });
}

}  // namespace paddleop::volume
