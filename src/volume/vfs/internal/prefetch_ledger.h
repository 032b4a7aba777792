#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>

#include "base/metrics.h"
#include "base/mutex.h"
#include "volume/format/object_key.h"

namespace paddleop::volume {

struct PrefetchCounts {
  std::uint64_t started = 0;
  std::uint64_t useful = 0;
  std::uint64_t wasted = 0;
};

// Keeps account of blocks that were fetched before anybody asked for them, and decides from it how
// many to fetch: more while they are read, fewer and finally none while they are not. After a pause
// it tries again.
//
// Thread-safe.
class PrefetchLedger {
 public:
  explicit PrefetchLedger(MetricsRegistry& metrics);

  void Started(const BlockId& block);
  // Somebody reads the block, wherever it is now. Cheap while nothing is open.
  void Read(const BlockId& block);
  // The block has left memory and was kept nowhere else.
  void Lost(const BlockId& block);
  // A block had to be fetched because nobody had foreseen it.
  void Missed();

  std::size_t window() const { return window_.load(std::memory_order_relaxed); }
  PrefetchCounts counts() const;

 private:
  static constexpr std::size_t kMaxWindow = 8;
  static constexpr std::size_t kMaxOpen = 1024;  // unread after so many others: wasted
  static constexpr std::size_t kJudgeAfter = 16;
  static constexpr std::size_t kPause = 64;  // misses without prefetch before it is tried again

  void Settle(bool useful) REQUIRES(mutex_);
  void SetWindow(std::size_t window) REQUIRES(mutex_);

  MetricsRegistry::Counter& started_;
  MetricsRegistry::Counter& useful_;
  MetricsRegistry::Counter& wasted_;
  MetricsRegistry::Gauge& window_gauge_;
  std::atomic<std::size_t> window_{2};
  std::atomic<std::size_t> open_count_{0};
  Mutex mutex_;
  std::map<BlockId, std::list<BlockId>::iterator> open_ GUARDED_BY(mutex_);
  std::list<BlockId> order_ GUARDED_BY(mutex_);
  std::size_t recent_useful_ GUARDED_BY(mutex_) = 0;
  std::size_t recent_wasted_ GUARDED_BY(mutex_) = 0;
  std::size_t paused_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paddleop::volume
