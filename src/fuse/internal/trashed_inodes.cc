#include "fuse/internal/trashed_inodes.h"

namespace paddleop::fuse {

std::size_t TrashedInodes::At(volume::Ino ino) {
  return static_cast<std::size_t>(ToInt(ino) * 0x9e3779b97f4a7c15ULL >> 40) % kSlots;
}

void TrashedInodes::Note(volume::Ino ino) {
  MutexLock lock(mutex_);
  if (slots_.empty()) slots_.resize(kSlots, volume::kNoIno);
  slots_[At(ino)] = ino;
  used_ = true;
}

void TrashedInodes::Forget(volume::Ino ino) {
  if (!used_) return;  // most mounts never see the trash
  MutexLock lock(mutex_);
  volume::Ino& slot = slots_[At(ino)];
  if (slot == ino) slot = volume::kNoIno;
}

bool TrashedInodes::Knows(volume::Ino ino) const {
  if (!used_) return false;
  MutexLock lock(mutex_);
  return slots_[At(ino)] == ino;
}

}  // namespace paddleop::fuse
