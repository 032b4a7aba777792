#include "volume/meta/internal/quota_table.h"

namespace paddleop::volume {
namespace {

// A tree deeper than this is a loop in a damaged volume.
constexpr int kMaxDepth = 4096;
constexpr std::size_t kMaxParents = 100'000;

bool Exceeds(std::int64_t limit, std::int64_t used, std::int64_t more) {
  return limit > 0 && more > 0 && used + more > limit;
}

}  // namespace

void QuotaTable::SetVolumeLimits(std::uint64_t capacity, std::uint64_t inodes) {
  MutexLock lock(mutex_);
  capacity_ = capacity;
  inodes_ = inodes;
  loaded_ = false;
}

Result<void> QuotaTable::Refresh(const Context& ctx) {
  ASSIGN_OR_RETURN(const auto quotas, engine_.ListDirQuotas(ctx));
  bool limited = false;
  {
    MutexLock lock(mutex_);
    limited = capacity_ > 0 || inodes_ > 0;
  }
  Usage usage;
  if (limited) {
    ASSIGN_OR_RETURN(usage, engine_.GetUsage(ctx));
  }
  MutexLock lock(mutex_);
  quotas_.clear();
  for (const auto& [ino, quota] : quotas) quotas_.emplace(ino, quota);
  parents_.clear();
  usage_ = usage;
  loaded_ = true;
  loaded_at_ = clock_.Now();
  return {};
}

Result<void> QuotaTable::RefreshIfOld(const Context& ctx) {
  {
    MutexLock lock(mutex_);
    if (loaded_ && clock_.Now() - loaded_at_ < interval_) return {};
  }
  return Refresh(ctx);
}

Result<Ino> QuotaTable::ParentOf(const Context& ctx, Ino dir) {
  {
    MutexLock lock(mutex_);
    const auto known = parents_.find(dir);
    if (known != parents_.end()) return known->second;
  }
  std::optional<Attr> attr;
  RETURN_IF_ERROR(engine_.ReadOnce(ctx, ReadSet().Attr(dir, &attr)));
  if (!attr) return Fail(Code::kNotFound, "directory {} is gone", ToInt(dir));
  MutexLock lock(mutex_);
  if (parents_.size() >= kMaxParents) parents_.clear();
  parents_[dir] = attr->parent;
  return attr->parent;
}

Result<std::vector<Ino>> QuotaTable::Chain(const Context& ctx, Ino dir) {
  RETURN_IF_ERROR(RefreshIfOld(ctx));
  std::vector<Ino> chain;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    {
      MutexLock lock(mutex_);
      if (quotas_.empty()) return chain;
      if (quotas_.contains(dir)) chain.push_back(dir);
    }
    if (dir == kRootIno || IsTrash(dir) || dir == kNoIno) return chain;
    ASSIGN_OR_RETURN(dir, ParentOf(ctx, dir));
  }
  return Fail(Code::kCorrupt, "directory {} lies more than {} levels deep", ToInt(dir), kMaxDepth);
}

Result<void> QuotaTable::CheckVolume(const Context& ctx, std::int64_t space, std::int64_t inodes) {
  {
    MutexLock lock(mutex_);
    if (capacity_ == 0 && inodes_ == 0) return {};
  }
  RETURN_IF_ERROR(RefreshIfOld(ctx));
  MutexLock lock(mutex_);
  if (Exceeds(static_cast<std::int64_t>(capacity_), usage_.space, space)) {
    return Fail(Code::kNoSpace, "the volume is full: {} of {} bytes used, {} more are needed",
                usage_.space, capacity_, space);
  }
  if (Exceeds(static_cast<std::int64_t>(inodes_), usage_.inodes, inodes)) {
    return Fail(Code::kNoSpace, "the volume is full: {} of {} inodes used, {} more are needed",
                usage_.inodes, inodes_, inodes);
  }
  return {};
}

Result<void> QuotaTable::CheckDirectories(const Context&, std::span<const Ino> chain,
                                          std::int64_t space, std::int64_t inodes) {
  if (chain.empty()) return {};
  MutexLock lock(mutex_);
  for (const Ino ino : chain) {
    const auto found = quotas_.find(ino);
    if (found == quotas_.end()) continue;
    const DirQuota& quota = found->second;
    if (Exceeds(quota.max_space, quota.used_space, space)) {
      return Fail(Code::kQuota, "quota of directory {}: {} of {} bytes used, {} more are needed",
                  ToInt(ino), quota.used_space, quota.max_space, space);
    }
    if (Exceeds(quota.max_inodes, quota.used_inodes, inodes)) {
      return Fail(Code::kQuota, "quota of directory {}: {} of {} inodes used, {} more are needed",
                  ToInt(ino), quota.used_inodes, quota.max_inodes, inodes);
    }
  }
  return {};
}

void QuotaTable::Committed(const Changes& changes) {
  MutexLock lock(mutex_);
  usage_.space += changes.usage.space;
  usage_.inodes += changes.usage.inodes;
  for (const auto& [ino, delta] : changes.quotas) {
    const auto found = quotas_.find(ino);
    if (found == quotas_.end()) continue;
    found->second.used_space += delta.space;
    found->second.used_inodes += delta.inodes;
  }
}

void QuotaTable::ForgetParents() {
  MutexLock lock(mutex_);
  parents_.clear();
}

}  // namespace paddleop::volume
