#include "volume/cache/internal/operations.h"

namespace paddleop::volume::cache {

Operations::Stamp Operations::Begin(const char* what) {
  // Each thread begins at a place of its own and moves on, so that it mostly finds one free.
  static std::atomic<std::size_t> threads = 0;
  static thread_local std::size_t next = threads.fetch_add(1, std::memory_order_relaxed) * 16;
  const std::int64_t now = Steady::now().time_since_epoch().count();
  for (std::size_t i = 0; i < kSlots; ++i) {
    Slot& slot = slots_[next++ % kSlots];
    std::int64_t free = 0;
    if (slot.since.load(std::memory_order_relaxed) != free) continue;
    if (!slot.since.compare_exchange_strong(free, now, std::memory_order_acq_rel)) continue;
    slot.what.store(what, std::memory_order_relaxed);
    return Stamp(&slot.since);
  }
  return {};
}

std::optional<Operations::Pending> Operations::Oldest() const {
  std::optional<Pending> oldest;
  for (const Slot& slot : slots_) {
    const Steady::time_point since{Steady::duration(slot.since.load(std::memory_order_acquire))};
    if (since == Steady::time_point()) continue;
    if (!oldest || since < oldest->since)
      oldest = {.what = slot.what.load(std::memory_order_relaxed), .since = since};
  }
  return oldest;
}

}  // namespace paddleop::volume::cache
