#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "volume/cache/disk_cache.h"

namespace paddleop::volume {

// Tells whether a disk cache keeps what is put there. Looks once a second. Thread-safe.
class DiskWatch {
 public:
  // `disk` outlives this object.
  explicit DiskWatch(DiskCache& disk) : disk_(disk) {}

  bool Keeps() {
    const auto now = Clock::now();
    auto next = look_again_.load();
    if (now >= next && look_again_.compare_exchange_strong(next, now + std::chrono::seconds(1)))
      keeps_ = KeepsNow(disk_);
    return keeps_;
  }

  // A block may be refused because room is just being made; what counts is whether there will be
  // any.
  static bool KeepsNow(DiskCache& disk) {
    return std::ranges::any_of(disk.Status(), [](const CacheDirectoryStatus& directory) {
      return directory.usable && directory.admitting;
    });
  }

 private:
  using Clock = std::chrono::steady_clock;

  DiskCache& disk_;
  std::atomic<bool> keeps_{true};
  std::atomic<Clock::time_point> look_again_{Clock::time_point::min()};
};

}  // namespace paddleop::volume
