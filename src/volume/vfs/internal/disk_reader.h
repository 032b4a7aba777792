#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "base/mutex.h"
#include "volume/cache/disk_cache.h"
#include "volume/vfs/internal/disk_threads.h"
#include "volume/vfs/internal/kernel_reads.h"
#include "volume/vfs/internal/read_buffers.h"

namespace paddleop::volume {

struct DiskReaderOptions {
  // For what has to wait for a disk: so many open files and read ranges of blocks, and so many for
  // each directory read of its open files.
  std::size_t threads = 8;
  // Who has waited so long for a disk gets no answer from it.
  std::chrono::milliseconds patience{5'000};
  std::size_t takers = 0;  // of what the kernel has read; 0: one for two processors, at most 4
  bool kernel_reads = true;
};

// Reads parts of blocks from a disk cache for callers who must not wait. Of files that are open the
// kernel reads, and a thread takes what it has read; what it cannot read without waiting is read by
// threads of the file's directory. A pool opens the others. As much is read at a time as there is
// memory for, of one directory never with all of it. A disk that hangs keeps what was handed to it:
// memory and threads. When there are none left for it, the answer is nothing.
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
  bool Run(ThreadPool::Task task) { return pool_.TrySubmit(std::move(task)); }
  // Answers everything that waits, with nothing, and ends the threads once the disk has answered.
  void Stop();

 private:
  using Steady = std::chrono::steady_clock;
  struct Request;
  using RequestPtr = std::shared_ptr<Request>;

  // What one directory has of the memory, and the threads that wait for its disk and no other.
  struct Share {
    std::size_t pieces = 0;
    std::size_t late = 0;                  // reads
    std::unique_ptr<DiskThreads> threads;  // once they were needed
  };
  // A completion queue of the kernel and the thread that takes from it.
  struct Taker {
    std::unique_ptr<KernelReads> reads;
    std::jthread thread;
  };

  void OpenTakers(std::size_t count);
  // With a file that is open.
  void BeginRead(const RequestPtr& request, bool may_wait);
  // True if a read that is begun now will hardly wait: a disk that has much to do, or does not
  // answer, may make even those wait who only ask it to read.
  bool IsCalm() REQUIRES(mutex_);
  // With memory, too.
  void Launch(const RequestPtr& request, bool may_wait);
  static std::size_t MemoryFor(const Request& request);
  // True if its directory has not got too much already.
  bool HasShare(const Request& request) REQUIRES(mutex_);
  bool TakeMemory(Request& request) REQUIRES(mutex_);
  // Who waited for memory, and has it now or will not get it.
  struct Turns {
    std::vector<RequestPtr> begun;
    std::vector<RequestPtr> refused;
    bool calm = false;
  };
  Turns TakeTurns() REQUIRES(mutex_);
  void Launch(const Turns& turns);
  void ReturnMemory(Request& request) REQUIRES(mutex_);
  // Gives the request's memory to those who wait for it.
  void Leave(Request& request);

  using PoolTask = void (DiskReader::*)(const RequestPtr&);
  // To the threads of the file's directory, if the request has one.
  void HandToPool(const RequestPtr& request, PoolTask task);
  void TakeUp(const RequestPtr& request, PoolTask task);
  // The pools': these may wait.
  void OpenAndRead(const RequestPtr& request);
  void LaunchHere(const RequestPtr& request) { Launch(request, /*may_wait=*/true); }
  void ReadHere(const RequestPtr& request);
  void ReadAnyhow(const RequestPtr& request);

  void TakeEnded(KernelReads& reads);
  void Finish(const RequestPtr& request, std::int64_t result);
  // These do nothing if it was answered before.
  void Answer(Request& request, std::optional<std::span<const std::byte>> bytes);
  void Refuse(Request& request);
  Done TakeDone(Request& request) REQUIRES(mutex_);
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
  std::map<const void*, Share> shares_ GUARDED_BY(mutex_);
  bool rests_ GUARDED_BY(mutex_) = false;  // SendAwayTheLate, until somebody waits again

  DiskThreads pool_;
  std::vector<Taker> takers_;  // none: the pool reads
  std::atomic<std::size_t> next_taker_ = 0;
  std::jthread patience_;
};

}  // namespace paddleop::volume
