#include "fuse/internal/known_versions.h"

#include <algorithm>

namespace paddleop::fuse {

bool KnownVersions::Unchanged(volume::Ino ino, const volume::Attr& attr, std::uint64_t losses,
                              std::uint64_t handle, Clock::time_point now) {
  const Version version{
      .mtime = attr.mtime, .ctime = attr.ctime, .length = attr.length, .losses = losses};
  MutexLock lock(mutex_);
  if (known_.size() >= kMax) known_.clear();
  const auto [at, fresh] = known_.try_emplace(ino);
  Known& known = at->second;
  if (fresh || known.version != version) {
    const std::chrono::milliseconds pages(attr.length / kDroppedPerMs);
    known = {.version = version, .dropped_by = now + kOpening + pages, .openers = {}};
  } else if (known.dropped_by <= now) {
    return true;
  }
  if (known.openers.size() < kMaxOpeners) known.openers.push_back(handle);
  return false;
}

void KnownVersions::Closed(volume::Ino ino, std::uint64_t handle) {
  MutexLock lock(mutex_);
  const auto at = known_.find(ino);
  if (at == known_.end() ||
      std::ranges::find(at->second.openers, handle) == at->second.openers.end())
    return;
  at->second.dropped_by = Clock::time_point::min();
  at->second.openers = {};
}

}  // namespace paddleop::fuse
