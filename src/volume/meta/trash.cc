#include "volume/format/trash.h"

#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

constexpr int kTrashAttempts = 3;

}  // namespace

Result<void> CheckTrashDirectory(Ino trash, const std::optional<Attr>& attr) {
  if (trash == kNoIno || attr) return {};
  return Fail(Code::kExpired, "directory {} of the trash is gone", ToInt(trash));
}

Result<Ino> EngineMetaStore::TrashFor(const Context& ctx, Ino parent, bool skip_trash) {
  if (skip_trash || IsTrash(parent) || trash_days() <= 0) return kNoIno;
  const std::string hour = TrashHourName(options_.clock->WallNow());
  {
    MutexLock lock(mutex_);
    if (trash_hour_ == hour) return trash_ino_;
  }
  ASSIGN_OR_RETURN(const auto found, engine_->FindEntry(ctx, kTrashIno, hour));
  Ino ino = kNoIno;
  if (found) {
    ino = found->edge.ino;
  } else {
    ASSIGN_OR_RETURN(ino, MakeTrashDirectory(ctx, hour));
  }
  MutexLock lock(mutex_);
  trash_hour_ = hour;
  trash_ino_ = ino;
  return ino;
}

Result<void> EngineMetaStore::RunWithTrash(const Context& ctx, Ino parent, bool skip_trash,
                                           const TrashBody& body) {
  for (int attempt = 1;; ++attempt) {
    ASSIGN_OR_RETURN(const Ino trash, TrashFor(ctx, parent, skip_trash));
    auto done = Run(ctx, [&](MetaTxn& txn, Changes& changes) { return body(txn, changes, trash); });
    if (done || done.error().code() != Code::kExpired || attempt == kTrashAttempts) return done;
    MutexLock lock(mutex_);
    if (trash_ino_ == trash) trash_hour_.clear();
  }
}

// As any directory is made, except that the trash itself is not touched.
Result<Ino> EngineMetaStore::MakeTrashDirectory(const Context& ctx, const std::string& hour) {
  ASSIGN_OR_RETURN(const std::uint64_t number, engine_->NextTrash(ctx));
  const Ino ino{ToInt(kTrashIno) + number};
  Ino result = ino;
  RETURN_IF_ERROR(Run(ctx, [&](MetaTxn& txn, Changes& changes) -> Result<void> {
    std::optional<Attr> trash;
    std::optional<Edge> edge;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(kTrashIno, &trash).Edge(kTrashIno, hour, &edge)));
    if (!trash) return Fail(Code::kCorrupt, "the volume has a trash but no inode for it");
    result = ino;
    if (edge) {
      result = edge->ino;
      return {};
    }
    Attr attr;
    attr.type = FileType::kDirectory;
    attr.mode = 0555;
    attr.nlink = 2;
    attr.length = 4096;
    attr.parent = kTrashIno;
    attr.atime = attr.mtime = attr.ctime = Now();
    txn.InsertNode(ino, attr);
    txn.PutEdge(kTrashIno, hour, {.ino = ino, .type = FileType::kDirectory});
    if (dir_stats()) txn.InitDirUsage(ino);
    changes.usage = {.space = 4096, .inodes = 1};
    return {};
  }));
  return result;
}

}  // namespace paddleop::volume
