#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "volume/meta/meta_store.h"

namespace paddleop::runtime {

// Size and number of the set's files, kept at hand. The volume's own counters include directories
// and the trash, so they only say that something changed; then the tree is summed up, in the
// background, and for a twentieth of the time at most while it goes on changing. Thread-safe.
class SetTotals {
 public:
  SetTotals(volume::MetaStore& meta, const Logger& log);

  struct Totals {
    std::uint64_t bytes = 0;
    std::uint64_t files = 0;
    bool known = false;  // false: nobody has looked yet
  };
  // Of the last time somebody looked: answers at once.
  Totals Get() const;
  // Looks now: after a job has changed the set.
  void LookNow();

 private:
  void Run(const std::stop_token& stop);
  // How long summing up took; nothing where it was not needed or could not be done.
  std::chrono::nanoseconds Look(const Context& ctx);

  static constexpr std::chrono::seconds kInterval{3};

  volume::MetaStore& meta_;
  const Logger& log_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool asked_ GUARDED_BY(mutex_) = false;
  Totals totals_ GUARDED_BY(mutex_);
  std::uint64_t seen_space_ = UINT64_MAX;   // only the thread's
  std::uint64_t seen_inodes_ = UINT64_MAX;  // only the thread's
  std::string seen_version_;                // only the thread's
  std::jthread thread_;
};

}  // namespace paddleop::runtime
