#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "fuse/internal/own_mount.h"
#include "fuse/internal/page_admission.h"
#include "volume/vfs/data_set.h"

namespace paddleop::fuse {

struct PageKeeperStatus {
  std::size_t period = 1;  // one in so many files that are read now stays in memory
  std::uint64_t dropped_files = 0;
  std::uint64_t dropped_bytes = 0;
};

// Keeps epochs over data that do not fit into memory from turning the kernel's page cache over for
// nothing: when memory is short, pages of most files are dropped as soon as they were read, so that
// the others stay (see PageAdmission for which). Of files up to kLargestFile only: the kernel may
// have any part of larger ones.
//
// Pages are dropped from outside, by a thread that opens files in a private copy of the mount. That
// asks the mount for nothing, and pages that are in use stay. Where it is not permitted (without
// root) or not possible (before Linux 5.12), nothing is dropped.
//
// Thread-safe.
class PageKeeper {
 public:
  static constexpr std::uint64_t kLargestFile = 4ULL << 20;

  // All outlive this object.
  PageKeeper(volume::DataSet& data, OwnMount& mount, MetricsRegistry& metrics, const Logger& log);
  ~PageKeeper();

  // The kernel is being given these bytes of a file, to keep. Cheap; never waits for the kernel.
  void Asked(volume::Ino file, std::uint64_t offset, std::uint64_t size);

  PageKeeperStatus Status();
  void Stop();

 private:
  struct File {
    volume::Ino ino;
    std::uint64_t bytes;
    std::chrono::steady_clock::time_point read;
  };

  void Run(const std::stop_token& stop);
  // A pass of the thread: drops what is due, looks if it has to.
  Result<void> Work(const std::stop_token& stop, const std::vector<File>& due, bool look);
  // Waits until there is something to do: files to drop, or (true) something to look at.
  bool WaitForWork(const std::stop_token& stop, std::vector<File>* due);
  bool Waits() const REQUIRES(mutex_);
  bool TooMuch() const REQUIRES(mutex_);
  // The numbers of files are those of this state now.
  void Follow(const volume::DataSet::View& tree) REQUIRES(mutex_);
  // Files that were read long enough ago, or are too much to linger any longer; not too many.
  std::vector<File> TakeDue() REQUIRES(mutex_);
  Result<void> Drop(const std::stop_token& stop, const std::vector<File>& files);
  // Whether the kernel has dropped more than a few of the files that it was left with.
  Result<void> Look(const std::stop_token& stop);
  // Some of those files.
  std::vector<volume::Ino> Sample();
  // These were dropped, as far as that was possible; nobody waits for a look that failed.
  void Done(const std::vector<File>& files, bool looked);
  // A copy of the mount, for a while.
  Result<const UniqueFd*> Copy();

  volume::DataSet& data_;
  OwnMount& mount_;
  const Logger& log_;
  MetricsRegistry::Counter& dropped_files_;
  MetricsRegistry::Counter& dropped_bytes_;
  MetricsRegistry::Gauge& share_;
  std::atomic<bool> ended_{false};

  Mutex mutex_;
  CondVar changed_;
  std::weak_ptr<const volume::Tree> tree_ GUARDED_BY(mutex_);  // whose nodes the admission counts
  PageAdmission admission_ GUARDED_BY(mutex_);
  std::deque<File> queue_ GUARDED_BY(mutex_);
  std::uint64_t queued_bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t all_dropped_files_ GUARDED_BY(mutex_) = 0;
  std::uint64_t all_dropped_bytes_ GUARDED_BY(mutex_) = 0;

  // The thread's.
  std::minstd_rand random_;
  UniqueFd copy_;
  std::chrono::steady_clock::time_point copied_;
  std::jthread thread_;
};

}  // namespace paddleop::fuse
