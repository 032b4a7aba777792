#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "volume/cache/disk_cache.h"
#include "volume/vfs/internal/kernel_reads.h"
#include "volume/vfs/internal/read_buffers.h"

namespace paddleop::volume {

struct DiskReaderOptions {
  std::size_t threads = 8;  // for what has to wait for the disk: opening files, ranges of blocks
  // Who has waited so long for a disk gets no answer from it.
  std::chrono::milliseconds patience{5'000};
  bool kernel_reads = true;
};

// Reads parts of blocks from a disk cache for callers who must not wait. Of files that are open the
// kernel reads, and a thread takes what it has read; a pool opens the others. As much is read at a
// time as there is memory for. A disk that hangs keeps what was handed to it: memory and threads,
// until there are none left for it.
//
// Thread-safe.
class DiskReader {
 public:
  // The bytes, valid during the call only. None: the cache has not got them, or did not answer in
  // time.
  using Done = std::move_only_function<void(std::optional<std::span<const std::byte>>)>;

  // All outlive this object.
  DiskReader(DiskCache& disk, MetricsRegistry& metrics, const DiskReaderOptions& options);
  ~DiskReader();
  DiskReader(const DiskReader&) = delete;
  DiskReader& operator=(const DiskReader&) = delete;

  // The answer comes exactly once, possibly before this returns.
  void Read(const BlockId& block, std::uint32_t offset, std::uint32_t size, Done done);
  // Something else that may wait for a disk. False: it was not begun, for lack of threads.
  bool Run(ThreadPool::Task task);
  // Answers everything that waits, with nothing, and ends the threads once the disk has answered.
  void Stop();

 private:
  using Steady = std::chrono::steady_clock;
  struct Request;
  using RequestPtr = std::shared_ptr<Request>;

  // With a file that is open.
  void BeginRead(const RequestPtr& request, bool may_wait);
  // With memory, too.
  void Launch(const RequestPtr& request, bool may_wait);
  bool TakeMemory(Request& request) REQUIRES(mutex_);
  // Gives the request's memory to those who wait for it.
  void Leave(Request& request);
  void LaunchQueued();

  void HandToPool(const RequestPtr& request, void (DiskReader::*task)(const RequestPtr&));
  // True if each of the pool's threads has worked for too long on what it does.
  bool PoolHangs();
  // The pool's: these may wait.
  void OpenAndRead(const RequestPtr& request);
  void ReadHere(const RequestPtr& request);
  void ReadAnyhow(const RequestPtr& request);

  void TakeEnded();
  void Finish(const RequestPtr& request, std::int64_t result);
  // False if it was answered before.
  bool Answer(Request& request, std::optional<std::span<const std::byte>> bytes);
  bool Waits(const Request& request);
  void SendAwayTheLate();

  DiskCache& disk_;
  const DiskReaderOptions options_;
  // The cache's own, which does not see who reads its files.
  MetricsRegistry::Counter& hits_;
  MetricsRegistry::Counter& hit_bytes_;
  MetricsRegistry::Counter& given_up_;

  ReadBuffers buffers_;
  Mutex mutex_;
  CondVar changed_;  // of interest to SendAwayTheLate and Stop
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::list<RequestPtr> waiting_ GUARDED_BY(mutex_);  // in order of arrival
  std::deque<RequestPtr> queue_ GUARDED_BY(mutex_);   // files are open, memory is missing
  std::size_t reading_ GUARDED_BY(mutex_) = 0;        // those that have memory
  std::size_t late_ GUARDED_BY(mutex_) = 0;           // of these, those nobody waits for any more
  std::list<Steady::time_point> running_ GUARDED_BY(mutex_);  // the pool's tasks, by their begin
  bool rests_ GUARDED_BY(mutex_) = false;  // SendAwayTheLate, until somebody waits again

  ThreadPool pool_;
  std::unique_ptr<KernelReads> kernel_;  // null: the pool reads
  std::vector<std::jthread> threads_;
};

}  // namespace paddleop::volume
