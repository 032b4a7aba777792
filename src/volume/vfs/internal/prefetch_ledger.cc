#include "volume/vfs/internal/prefetch_ledger.h"

#include <algorithm>

#include "volume/vfs/metrics.h"

namespace paddleop::volume {

PrefetchLedger::PrefetchLedger(MetricsRegistry& metrics)
    : started_(metrics.AddCounter(kPrefetchBlocks, kPrefetchBlocksHelp, {{"result", "started"}})),
      useful_(metrics.AddCounter(kPrefetchBlocks, kPrefetchBlocksHelp, {{"result", "useful"}})),
      wasted_(metrics.AddCounter(kPrefetchBlocks, kPrefetchBlocksHelp, {{"result", "wasted"}})),
      window_gauge_(metrics.AddGauge(kPrefetchWindow, kPrefetchWindowHelp)) {
  window_gauge_.Set(static_cast<double>(window()));
}

void PrefetchLedger::SetWindow(std::size_t window) {
  window_.store(window);
  window_gauge_.Set(static_cast<double>(window));
  recent_useful_ = recent_wasted_ = 0;
  paused_ = 0;
}

void PrefetchLedger::Settle(bool useful) {
  (useful ? useful_ : wasted_).Increment();
  ++(useful ? recent_useful_ : recent_wasted_);
  if (recent_useful_ + recent_wasted_ < kJudgeAfter) return;
  if (recent_wasted_ * 2 > recent_useful_) {
    SetWindow(window() / 2);
  } else {
    SetWindow(std::min(kMaxWindow, window() + 1));
  }
}

void PrefetchLedger::Started(const BlockId& block) {
  MutexLock lock(mutex_);
  started_.Increment();
  if (open_.contains(block)) return;
  order_.push_back(block);
  open_.emplace(block, std::prev(order_.end()));
  if (open_.size() > kMaxOpen) {
    open_.erase(order_.front());
    order_.pop_front();
    Settle(false);
  }
  open_count_.store(open_.size(), std::memory_order_relaxed);
}

void PrefetchLedger::Read(const BlockId& block) {
  if (open_count_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(mutex_);
  const auto found = open_.find(block);
  if (found == open_.end()) return;
  order_.erase(found->second);
  open_.erase(found);
  open_count_.store(open_.size(), std::memory_order_relaxed);
  Settle(true);
}

void PrefetchLedger::Lost(const BlockId& block) {
  if (open_count_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(mutex_);
  const auto found = open_.find(block);
  if (found == open_.end()) return;
  order_.erase(found->second);
  open_.erase(found);
  open_count_.store(open_.size(), std::memory_order_relaxed);
  Settle(false);
}

void PrefetchLedger::Missed() {
  if (window() > 0) return;
  MutexLock lock(mutex_);
  if (++paused_ >= kPause) SetWindow(1);
}

PrefetchCounts PrefetchLedger::counts() const {
  return {.started = static_cast<std::uint64_t>(started_.Value()),
          .useful = static_cast<std::uint64_t>(useful_.Value()),
          .wasted = static_cast<std::uint64_t>(wasted_.Value())};
}

}  // namespace paddleop::volume
