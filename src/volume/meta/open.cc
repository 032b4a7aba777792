#include "volume/meta/internal/store.h"

namespace paddleop::volume {

bool EngineMetaStore::IsKeptOpen(Ino ino, Changes& changes) {
  MutexLock lock(open_mutex_);
  if (open_files_.contains(ino)) return true;
  ++removing_[ino];
  changes.removing.push_back(ino);
  return false;
}

void EngineMetaStore::EndRemoving(std::span<const Ino> inodes) {
  if (inodes.empty()) return;
  MutexLock lock(open_mutex_);
  for (const Ino ino : inodes) {
    const auto removing = removing_.find(ino);
    if (removing != removing_.end() && --removing->second == 0) removing_.erase(removing);
  }
  open_changed_.notify_all();
}

bool EngineMetaStore::IsThrownAway(Ino ino, const Attr& attr) {
  if (!IsTrash(attr.parent)) return false;
  MutexLock lock(open_mutex_);
  const auto open = open_files_.find(ino);
  return open == open_files_.end() || open->second.from_trash.value_or(true);
}

bool EngineMetaStore::IsNameless(Ino ino, const Attr& attr) {
  if (attr.nlink > 0) return false;
  MutexLock lock(open_mutex_);
  return !open_files_.contains(ino);
}

void EngineMetaStore::NoteMade(Ino ino) {
  MutexLock lock(open_mutex_);
  OpenFile& open = open_files_[ino];
  ++open.count;
  open.from_trash = false;
}

// The handle is counted before the file is looked at: whoever takes its last name from then on
// keeps it, and what others have begun before that is awaited.
Result<Attr> EngineMetaStore::NoteOpen(const Context& ctx, Ino ino) {
  {
    MutexLock lock(open_mutex_);
    const auto settled = [&]() REQUIRES(open_mutex_) { return !removing_.contains(ino); };
    const bool came = ctx.has_deadline()
                          ? open_changed_.wait_until(lock, ctx.stop(), ctx.deadline(), settled)
                          : open_changed_.wait(lock, ctx.stop(), settled);
    if (!came) {
      RETURN_IF_ERROR(ctx.Check());
      return Fail(Code::kDeadline, "inode {} is being removed", ToInt(ino));
    }
    ++open_files_[ino].count;
  }
  auto attr = GetAttr(ctx, ino);
  if (!attr) {
    CloseFailed(ctx, ino);
    return attr;
  }
  MutexLock lock(open_mutex_);
  auto& from_trash = open_files_[ino].from_trash;
  if (!from_trash) from_trash = IsTrash(attr->parent);
  return attr;
}

Result<Attr> EngineMetaStore::Open(const Context& ctx, const Caller& caller, Ino ino,
                                   unsigned mask) {
  ASSIGN_OR_RETURN(Attr attr, NoteOpen(ctx, ino));
  auto allowed = CheckOpen(caller, ino, attr, mask);
  if (allowed) return attr;
  CloseFailed(ctx, ino);
  return std::unexpected(std::move(allowed).error());
}

Result<void> EngineMetaStore::CheckOpen(const Caller& caller, Ino ino, const Attr& attr,
                                        unsigned mask) {
  if (attr.type == FileType::kDirectory && (mask & kMayWrite) != 0) {
    return Fail(Code::kIsDirectory, "inode {} is a directory", ToInt(ino));
  }
  RETURN_IF_ERROR(CheckAccess(caller, attr, mask));
  if ((mask & kMayWrite) == 0) return {};
  RETURN_IF_ERROR(CheckWritable());
  if ((attr.flags & kFlagImmutable) != 0) return Fail(Code::kPermission, "the file is immutable");
  if (IsThrownAway(ino, attr)) return Fail(Code::kPermission, "the file is in the trash");
  return {};
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
    ++removing_[ino];
  }
  return FinishSustained(ctx, ino);
}

void EngineMetaStore::CloseFailed(const Context& ctx, Ino ino) {
  if (auto closed = Close(ctx, ino); !closed && options_.log != nullptr) {
    options_.log->Warn(ctx, "a removed file stays for now",
                       {{"inode", ToInt(ino)}, {"error", closed.error().message()}});
  }
}

Result<void> EngineMetaStore::FinishSustained(const Context& ctx, Ino ino) {
  std::uint64_t session = 0;
  {
    MutexLock lock(mutex_);
    session = session_;
  }
  auto deleted = DeleteSustained(ctx, session, ino);
  if (!deleted) {
    MutexLock lock(open_mutex_);
    undeleted_.insert(ino);
  }
  EndRemoving(std::span(&ino, 1));
  return deleted;
}

Result<void> EngineMetaStore::KeepSustained(const Context& ctx, std::span<const Ino> inodes) {
  std::vector<Ino> closed;
  {
    MutexLock lock(open_mutex_);
    for (const Ino ino : inodes) {
      if (open_files_.contains(ino)) {
        sustained_.insert(ino);
      } else {
        ++removing_[ino];
        closed.push_back(ino);
      }
    }
  }
  Result<void> first;
  for (const Ino ino : closed) {
    if (auto deleted = FinishSustained(ctx, ino); !deleted && first) first = std::move(deleted);
  }
  return first;
}

Result<void> EngineMetaStore::RetrySustained(const Context& ctx) {
  std::vector<Ino> again;
  {
    MutexLock lock(open_mutex_);
    again.assign(undeleted_.begin(), undeleted_.end());
    undeleted_.clear();
  }
  return KeepSustained(ctx, again);
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
