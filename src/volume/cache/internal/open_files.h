// A bounded number of files that stay open between reads.
//
// Closing a file that was evicted meanwhile waits for its disk, so it is not left to whoever read
// it last.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "volume/format/object_key.h"

namespace paddleop::volume::cache {

// The least recently used is closed first. Thread-safe; shards keep readers of different blocks
// apart.
template <class File>
class OpenFiles {
 public:
  explicit OpenFiles(std::size_t limit) : per_shard_(std::max<std::size_t>(1, limit / kShards)) {}

  std::shared_ptr<File> Find(const BlockId& block) {
    Shard& shard = ShardOf(block);
    MutexLock lock(shard.mutex);
    const auto found = shard.index.find(block);
    if (found == shard.index.end()) return nullptr;
    shard.order.splice(shard.order.begin(), shard.order, found->second);
    return found->second->second;
  }

  void Insert(const BlockId& block, std::shared_ptr<File> file) {
    std::shared_ptr<File> closed;  // after the lock
    Shard& shard = ShardOf(block);
    MutexLock lock(shard.mutex);
    if (shard.index.contains(block)) return;
    shard.order.emplace_front(block, std::move(file));
    shard.index.emplace(block, shard.order.begin());
    if (shard.order.size() <= per_shard_) return;
    closed = std::move(shard.order.back().second);
    shard.index.erase(shard.order.back().first);
    shard.order.pop_back();
    KeepIfInUse(closed);
  }

  bool Contains(const BlockId& block) {
    Shard& shard = ShardOf(block);
    MutexLock lock(shard.mutex);
    return shard.index.contains(block);
  }

  void Erase(const BlockId& block) {
    EraseIf([&](const File&) { return true; }, &block);
  }

  // Closes the files for which `gone` is true, which may take its time.
  template <class Predicate>
  void EraseIf(Predicate gone, const BlockId* only = nullptr) {
    for (Shard& shard : shards_) {
      if (only != nullptr && &shard != &ShardOf(*only)) continue;
      std::vector<std::pair<BlockId, std::shared_ptr<File>>> files;
      {
        MutexLock lock(shard.mutex);
        for (const auto& [block, file] : shard.order) {
          if (only == nullptr || block == *only) files.emplace_back(block, file);
        }
      }
      std::erase_if(files, [&](const auto& entry) { return !gone(*entry.second); });
      MutexLock lock(shard.mutex);
      for (const auto& [block, file] : files) {
        const auto found = shard.index.find(block);
        if (found == shard.index.end() || found->second->second != file) continue;
        shard.order.erase(found->second);
        shard.index.erase(found);
        KeepIfInUse(file);
      }
    }
  }

  // Closes files for which `mine` is true that were in use when they had to go.
  template <class Predicate>
  void CloseLeft(Predicate mine) {
    std::vector<std::shared_ptr<File>> closed;
    MutexLock lock(left_mutex_);
    std::erase_if(left_, [&](std::shared_ptr<File>& file) {
      if (file.use_count() > 1 || !mine(*file)) return false;
      closed.push_back(std::move(file));
      return true;
    });
  }

 private:
  // Where nobody looks after them, these are so few that some are simply closed.
  static constexpr std::size_t kMostLeft = 256;

  void KeepIfInUse(const std::shared_ptr<File>& file) {
    MutexLock lock(left_mutex_);
    if (file.use_count() > 1 && left_.size() < kMostLeft) left_.push_back(file);
  }

  static constexpr std::size_t kShards = 8;
  struct Shard {
    Mutex mutex;
    std::list<std::pair<BlockId, std::shared_ptr<File>>> order;
    std::map<BlockId, typename std::list<std::pair<BlockId, std::shared_ptr<File>>>::iterator>
        index;
  };
  Shard& ShardOf(const BlockId& block) { return shards_[(block.slice + block.index) % kShards]; }

  const std::size_t per_shard_;
  Shard shards_[kShards];
  Mutex left_mutex_;  // the last to be taken
  std::vector<std::shared_ptr<File>> left_ GUARDED_BY(left_mutex_);
};

}  // namespace paddleop::volume::cache
