// Counters of a cache directory in a file that all processes map, so that totals are known without
// a walk.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
  std::atomic<std::uint64_t> changes;  // begun since the page exists
};
static_assert(sizeof(CounterPage) <= 4096 && std::atomic<std::uint64_t>::is_always_lock_free);

// If the page cannot be touched any more (its disk has failed, somebody has cut the file), memory
// of this process's own takes its place, and IsAt() is false.
class SharedCounters {
 public:
  // Maps `path`, made if it is not there. kInvalid if it is another volume's. If it cannot be made
  // because the disk is full, the counters are this process's own. `when_alone` is called, before
  // others can come in, if no other process has the directory open.
  static Result<std::unique_ptr<SharedCounters>> Open(
      const std::string& path, std::string_view uuid,
      const std::function<Result<void>()>& when_alone);
  ~SharedCounters();
  SharedCounters(const SharedCounters&) = delete;
  SharedCounters& operator=(const SharedCounters&) = delete;

  CounterPage* operator->() { return page_; }
  const CounterPage* operator->() const { return page_; }
  // The numbers cannot be trusted: the file is new, or a process or the machine died in a change.
  bool needs_walk() const { return page_->counted.load() == 0; }
  // True if this file still has that name and its page is what others see.
  bool IsAt(const std::string& path) const;
  // False if the disk was full.
  bool shared() const { return fd_.valid(); }

 private:
  SharedCounters() = default;
  Result<void> Prepare(const std::string& path, std::string_view uuid,
                       const std::function<Result<void>()>& when_alone);

  UniqueFd fd_;
  CounterPage* page_ = nullptr;
  bool guarded_ = false;
};

// Marks a change of the directory while it lives, so that a death inside it is noticed.
class Change {
 public:
  explicit Change(SharedCounters& counters) : counters_(counters) {
    ++counters_->in_flight;
    ++counters_->changes;
  }
  ~Change() { --counters_->in_flight; }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  SharedCounters& counters_;
};

}  // namespace paddleop::volume::cache
