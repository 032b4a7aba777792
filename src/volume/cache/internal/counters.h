// Counters of a cache directory in a file that all processes map, so that totals are known without
// a walk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/posix.h"

namespace paddleop::volume::cache {

// The file: 4 KiB, of which this is the head. Processes of one machine share it, so it has that
// machine's byte order. Gauges are signed: a race may take them below zero until the next walk.
struct CounterPage {
  char magic[8];
  char uuid[40];                        // of the volume
  char boot[40];                        // of the machine's run in which the page was last opened
  std::atomic<std::int64_t> counted;    // seconds since the epoch of the last walk; 0: never
  std::atomic<std::int64_t> in_flight;  // changes to the directory that are not counted yet
  std::atomic<std::int64_t> blocks;
  std::atomic<std::int64_t> bytes;
  std::atomic<std::int64_t> pinned_bytes;
  std::atomic<std::int64_t> part_blocks;
  std::atomic<std::int64_t> part_bytes;
  std::atomic<std::uint64_t> hits;
  std::atomic<std::uint64_t> hit_bytes;
  std::atomic<std::uint64_t> misses;
  std::atomic<std::uint64_t> miss_bytes;
  std::atomic<std::uint64_t> corrupt;
  std::atomic<std::uint64_t> evicted;
};
static_assert(sizeof(CounterPage) <= 4096 && std::atomic<std::uint64_t>::is_always_lock_free);

class SharedCounters {
 public:
  // Maps `path`, made if it is not there. kInvalid if it is another volume's. If it cannot be made
  // because the disk is full, the counters are this process's own.
  static Result<std::unique_ptr<SharedCounters>> Open(const std::string& path,
                                                      std::string_view uuid);
  ~SharedCounters();
  SharedCounters(const SharedCounters&) = delete;
  SharedCounters& operator=(const SharedCounters&) = delete;

  CounterPage* operator->() { return page_; }
  const CounterPage* operator->() const { return page_; }
  // The numbers cannot be trusted: the file is new, or a process or the machine died in a change.
  bool needs_walk() const { return page_->counted.load() == 0; }
  // No other process had the directory open when this one came.
  bool was_alone() const { return was_alone_; }

 private:
  SharedCounters() = default;
  Result<void> Prepare(const std::string& path, std::string_view uuid);

  UniqueFd fd_;
  CounterPage* page_ = nullptr;
  bool was_alone_ = false;
};

// Marks a change of the directory while it lives, so that a death inside it is noticed.
class Change {
 public:
  explicit Change(SharedCounters& counters) : counters_(counters) { ++counters_->in_flight; }
  ~Change() { --counters_->in_flight; }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  SharedCounters& counters_;
};

}  // namespace paddleop::volume::cache
