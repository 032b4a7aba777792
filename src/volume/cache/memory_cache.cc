#include "volume/cache/memory_cache.h"

#include <array>
#include <cstring>
#include <list>
#include <map>
#include <vector>

#include "base/mutex.h"

namespace paddleop::volume {
namespace {

using Content = std::shared_ptr<const std::vector<std::byte>>;

// One lock for a part of the blocks, so that readers of different blocks seldom meet.
class Shard {
 public:
  void set_capacity(std::uint64_t capacity) { capacity_ = capacity; }

  Content Find(const BlockId& block) {
    MutexLock lock(mutex_);
    const auto found = index_.find(block);
    if (found == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->content;
  }

  bool Contains(const BlockId& block) {
    MutexLock lock(mutex_);
    return index_.contains(block);
  }

  bool Insert(const BlockId& block, Content content) {
    const std::uint64_t size = content->size();
    if (size > capacity_) return false;
    MutexLock lock(mutex_);
    if (index_.contains(block)) return true;  // blocks are immutable: what is here is the same
    while (bytes_ + size > capacity_) {
      bytes_ -= order_.back().content->size();
      index_.erase(order_.back().block);
      order_.pop_back();
    }
    order_.push_front({block, std::move(content)});
    index_.emplace(block, order_.begin());
    bytes_ += size;
    return true;
  }

  void Erase(const BlockId& block) {
    MutexLock lock(mutex_);
    const auto found = index_.find(block);
    if (found == index_.end()) return;
    bytes_ -= found->second->content->size();
    order_.erase(found->second);
    index_.erase(found);
  }

  void AddTo(CacheUsage& usage) const {
    MutexLock lock(mutex_);
    usage.blocks += index_.size();
    usage.bytes += bytes_;
  }

 private:
  struct Entry {
    BlockId block;
    Content content;
  };

  std::uint64_t capacity_ = 0;
  mutable Mutex mutex_;
  std::list<Entry> order_ GUARDED_BY(mutex_);  // most recently read first
  std::map<BlockId, std::list<Entry>::iterator> index_ GUARDED_BY(mutex_);
  std::uint64_t bytes_ GUARDED_BY(mutex_) = 0;
};

class MemoryCache final : public CacheStore {
 public:
  explicit MemoryCache(std::uint64_t capacity) : capacity_(capacity) {
    // Few shards when there is little room: a shard must still hold whole blocks.
    shards_ =
        std::min<std::uint64_t>(kMaxShards, std::max<std::uint64_t>(1, capacity / (64U << 20)));
    for (std::size_t i = 0; i < shards_; ++i) shard_[i].set_capacity(capacity / shards_);
  }

  bool Read(const Context&, const BlockId& block, std::uint32_t offset,
            std::span<std::byte> out) override {
    const Content content = ShardOf(block).Find(block);
    if (!content || offset + out.size() > content->size()) return false;
    std::memcpy(out.data(), content->data() + offset, out.size());
    return true;
  }

  bool Put(const Context&, const BlockId& block, std::span<const std::byte> plain) override {
    if (plain.size() > capacity_ / shards_) return false;
    return ShardOf(block).Insert(
        block, std::make_shared<const std::vector<std::byte>>(plain.begin(), plain.end()));
  }

  bool Contains(const BlockId& block) override { return ShardOf(block).Contains(block); }
  void Remove(const BlockId& block) override { ShardOf(block).Erase(block); }

  CacheUsage Usage() const override {
    CacheUsage usage{.capacity = capacity_};
    for (std::size_t i = 0; i < shards_; ++i) shard_[i].AddTo(usage);
    return usage;
  }

 private:
  static constexpr std::size_t kMaxShards = 16;

  Shard& ShardOf(const BlockId& block) {
    return shard_[(block.slice * 31 + block.index) % shards_];
  }

  std::uint64_t capacity_;
  std::size_t shards_;
  std::array<Shard, kMaxShards> shard_;
};

}  // namespace

std::unique_ptr<CacheStore> MakeMemoryCache(std::uint64_t capacity) {
  return std::make_unique<MemoryCache>(capacity);
}

}  // namespace paddleop::volume
