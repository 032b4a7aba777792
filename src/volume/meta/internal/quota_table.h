#pragma once

#include <chrono>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "volume/meta/internal/changes.h"
#include "volume/meta/internal/engine.h"

namespace paddleop::volume {

// Limits of the volume and of directories, with their usage as last read plus what this client has
// added since. Read afresh once per interval, so limits are soft by that much, as with the official
// client.
//
// Thread-safe.
class QuotaTable {
 public:
  QuotaTable(MetaEngine& engine, Clock& clock, std::chrono::milliseconds interval)
      : engine_(engine), clock_(clock), interval_(interval) {}

  void SetVolumeLimits(std::uint64_t capacity, std::uint64_t inodes);
  // Reads quotas now.
  Result<void> Refresh(const Context& ctx);

  // Directories with a quota from `dir` upwards; empty at once where no directory has a quota.
  Result<std::vector<Ino>> Chain(const Context& ctx, Ino dir);
  // kNoSpace or kQuota if so much more does not fit; negative amounts always do.
  Result<void> CheckVolume(const Context& ctx, std::int64_t space, std::int64_t inodes);
  Result<void> CheckDirectories(const Context& ctx, std::span<const Ino> chain, std::int64_t space,
                                std::int64_t inodes);
  // Counts what was committed.
  void Committed(const Changes& changes);
  // A directory was moved: forget where directories lie.
  void ForgetParents();

 private:
  Result<void> RefreshIfOld(const Context& ctx);
  Result<Ino> ParentOf(const Context& ctx, Ino dir);

  MetaEngine& engine_;
  Clock& clock_;
  const std::chrono::milliseconds interval_;

  Mutex mutex_;
  std::uint64_t capacity_ GUARDED_BY(mutex_) = 0;
  std::uint64_t inodes_ GUARDED_BY(mutex_) = 0;
  bool loaded_ GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point loaded_at_ GUARDED_BY(mutex_);
  Usage usage_ GUARDED_BY(mutex_);
  std::unordered_map<Ino, DirQuota> quotas_ GUARDED_BY(mutex_);
  std::unordered_map<Ino, Ino> parents_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume
