#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
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
#include "base/thread_pool.h"
#include "volume/cache/disk_cache.h"
#include "volume/chunk/block_store.h"
#include "volume/vfs/internal/disk_reader.h"
#include "volume/vfs/internal/prefetch_ledger.h"

namespace paddleop::volume {

struct AsyncBlocksOptions {
  std::size_t fetch_threads = 12;            // blocks under way from the store
  std::uint64_t recent_bytes = 16ULL << 20;  // blocks just fetched stay in memory
  std::chrono::milliseconds timeout{60'000};
  int retries = 0;  // of a fetch that somebody waits for; 0: as long as the timeout lasts
  DiskReaderOptions disk;
};

// Reads parts of blocks: at once if the block is in memory, else from the disk cache, else by a
// pool that fetches the whole block from the store, once, whoever waits for it. Where whole blocks
// are kept nowhere and leave memory before much of them is read, small reads get their range only.
// No caller waits for the store or for a disk, and a disk that hangs does not keep readers from the
// store.
//
// Thread-safe. The answer may come before Read returns, and comes exactly once, also at the end
// (kCancelled).
class AsyncBlocks {
 public:
  // The bytes are valid during the call only.
  using Done = std::move_only_function<void(Result<std::span<const std::byte>>)>;
  // A block had to be fetched; `hint` is what the reader said.
  using OnMiss = std::function<void(const BlockId& block, std::uint64_t hint)>;

  // `disk` may be null. All outlive this object.
  AsyncBlocks(BlockStore& blocks, DiskCache* disk, MetricsRegistry& metrics,
              const AsyncBlocksOptions& options, OnMiss on_miss);
  ~AsyncBlocks();

  void Read(const BlockId& block, std::uint32_t offset, std::uint32_t size, std::uint64_t hint,
            Done done);
  // Fetches the block if it is nowhere near. Drops the wish when much is under way.
  void Prefetch(const BlockId& block);
  // How many blocks to fetch ahead after a miss now.
  std::size_t prefetch_window() const { return ledger_.window(); }
  // How many blocks may be fetched ahead of one reader now without pushing each other out before
  // they are read; no limit while the disk keeps them.
  std::uint64_t ahead_limit() const;
  PrefetchCounts prefetch_counts() const { return ledger_.counts(); }

  // Runs the task on the pool that may wait for the network.
  void Run(ThreadPool::Task task);
  // Answers everything that waits with an error, and ends the pools.
  void Stop();
  Context Bounded() const;

 private:
  enum Tier { kMemory, kDisk, kStore };
  using Content = BlockStore::BlockContent;
  struct Waiter {
    std::uint32_t offset;
    std::uint32_t size;
    Done done;
    Context::TimePoint arrived = {};  // when it began to wait
    int failures = 0;                 // of attempts since then
  };
  // What is fetched: a whole block or a range of one.
  struct Part {
    BlockId block;
    std::uint32_t offset = 0;
    std::uint32_t size = 0;

    auto operator<=>(const Part&) const = default;
    bool whole() const { return size == block.length; }
  };
  static Part Whole(const BlockId& block) { return {.block = block, .size = block.length}; }
  struct Pending {
    std::vector<Waiter> waiters;  // in order of arrival
    Content content;         // set once it is there; the block is being written to the disk cache
    std::uint64_t read = 0;  // bytes of `content`
    bool ahead = false;      // worth an attempt though nobody waits
    Status error{Code::kDeadline, "the store has not answered in time"};  // for who gives up now
  };
  struct Recent {
    BlockId block;
    Content content;
    bool kept;           // on the disk, too
    std::uint64_t read;  // bytes of it so far
  };
  struct Ranges {
    BlockId block;
    std::uint64_t read;  // bytes of it so far
  };

  // The content if it is in memory; otherwise the waiter is queued if the block is under way, and
  // else left alone.
  Content FindInMemory(const BlockId& block, Waiter* waiter, bool* queued);
  void Answer(Tier tier, Waiter& waiter, const Content& content);
  void Count(Tier tier, std::uint32_t size);
  void StartFetch(const BlockId& block, std::uint64_t hint, Waiter waiter);
  void StartPrefetch(const BlockId& block);
  void Wait(Pending& pending, Waiter waiter) REQUIRES(mutex_);
  // What to fetch for this read.
  Part Choose(const BlockId& block, const Waiter& waiter) REQUIRES(mutex_);
  void Fetch(const Part& part);
  Result<void> FetchOnce(const Context& ctx, const Part& part);
  // How long the next attempt may take. Nothing if nobody wants the part any more; then it is not
  // under way any more, either.
  std::optional<Context::TimePoint> FetchUntil(const Part& part);
  void Deliver(const BlockId& block, Content content);
  void DeliverRange(const Part& part, std::span<const std::byte> bytes);
  // An attempt has failed. True if somebody goes on waiting; otherwise the part is not under way
  // any more.
  bool Failed(const Part& part, const Status& error);
  // Sends readers away when their time is up, whatever the fetching threads are busy with, and lets
  // go of blocks in memory that nobody reads any more.
  void WatchTheTime();
  // It looks then, if not before.
  void LookAt(Context::TimePoint time) REQUIRES(mutex_);
  // When to look again.
  Context::TimePoint LetGoOfRecent(Context::TimePoint now) REQUIRES(mutex_);
  // Adds to the blocks in memory. Those that had to leave for it and are nowhere else.
  std::vector<BlockId> Remember(Recent recent) REQUIRES(mutex_);
  // Puts a block that was delivered on the disk, if there is one, and settles it; later, by a pool.
  void KeepLater(const BlockId& block, Content content);
  bool Keep(const BlockId& block, const Content& content);
  // The block is not under way any more. `may_look`: this thread may wait for a disk.
  void Settle(const BlockId& block, Content content, bool kept, bool may_look);
  void LookAtDisk();

  BlockStore& blocks_;
  DiskCache* const disk_;
  const AsyncBlocksOptions options_;
  const OnMiss on_miss_;
  PrefetchLedger ledger_;
  MetricsRegistry::Counter* reads_[3];
  MetricsRegistry::Counter* bytes_[3];
  MetricsRegistry::Counter& fetch_errors_;
  std::stop_source stop_;
  std::atomic<bool> keeps_;          // the disk, what is put there
  std::atomic<bool> stuck_ = false;  // what is to be put there waits for too long
  std::atomic<Context::TimePoint> look_again_{Context::TimePoint::min()};

  Mutex mutex_;
  CondVar look_earlier_;
  // Of WatchTheTime; in the past while it looks.
  Context::TimePoint next_look_ GUARDED_BY(mutex_) = Context::TimePoint::min();
  std::map<Part, std::shared_ptr<Pending>> pending_ GUARDED_BY(mutex_);
  std::list<Recent> recent_ GUARDED_BY(mutex_);  // the last fetched or read first
  std::map<BlockId, std::list<Recent>::iterator> recent_places_ GUARDED_BY(mutex_);
  std::uint64_t recent_used_ GUARDED_BY(mutex_) = 0;
  Context::TimePoint recent_touched_ GUARDED_BY(mutex_);
  // How many blocks, one after the other, have left memory and were hardly read.
  int in_vain_ GUARDED_BY(mutex_) = 0;
  // Blocks of which only ranges were fetched: what would be in memory if whole ones had been. The
  // last read first.
  std::list<Ranges> ranges_ GUARDED_BY(mutex_);

  std::unique_ptr<DiskReader> reader_;  // null without a disk
  ThreadPool fetch_pool_;
  DiskThreads keep_pool_;
  std::jthread watch_;
};

}  // namespace paddleop::volume
