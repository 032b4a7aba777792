#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/mutex.h"

namespace paddleop::volume {

// Divides what may be fetched ahead among those who read in sequence at present: where blocks are
// kept in memory only, more of them would push out what nobody has read yet. Thread-safe.
class ReadAheadShares {
 public:
  // How many bytes may be ahead of all readers together now; any number if empty.
  using Limit = std::function<std::uint64_t()>;

  explicit ReadAheadShares(Limit limit) : limit_(std::move(limit)) {}

  // How far to fetch ahead of this reader, which goes on now.
  std::uint64_t ShareOf(const void* reader) {
    const std::uint64_t limit = limit_ ? limit_() : UINT64_MAX;
    if (limit == UINT64_MAX) return limit;
    const auto now = Clock::now();
    MutexLock lock(mutex_);
    readers_[reader] = now;
    // Who pauses for long leaves its share to others.
    if (now - looked_ >= kPause) {
      std::erase_if(readers_, [&](const auto& entry) { return now - entry.second >= kPause; });
      looked_ = now;
    }
    return limit / readers_.size();
  }
  // The reader has come to its end.
  void Leave(const void* reader) {
    MutexLock lock(mutex_);
    readers_.erase(reader);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kPause = std::chrono::seconds(2);

  const Limit limit_;
  Mutex mutex_;
  std::map<const void*, Clock::time_point> readers_ GUARDED_BY(mutex_);
  Clock::time_point looked_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume
