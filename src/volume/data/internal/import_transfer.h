#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/thread_pool.h"
#include "volume/data/internal/import_journal.h"
#include "volume/data/internal/import_state.h"
#include "volume/data/internal/pack.h"

namespace paddleop::volume::data {

// Files whose data is stored and which wait to be committed together: all that share a slice.
struct StoredFiles {
  std::vector<ImportItem> items;
  std::vector<NewFile> files;  // one for each item
  std::vector<SliceKey> slices;
};

// Counts what is under way, in requests and bytes, and lets callers wait for room. Thread-safe.
class InFlight {
 public:
  InFlight(std::size_t max_requests, std::uint64_t max_bytes)
      : max_requests_(max_requests), max_bytes_(max_bytes) {}

  // Waits for room; a single request may be larger than the limit of bytes.
  Result<void> Enter(const Context& ctx, std::uint64_t bytes);
  void Leave(std::uint64_t bytes);

 private:
  const std::size_t max_requests_;
  const std::uint64_t max_bytes_;
  Mutex mutex_;
  CondVar left_;
  std::size_t requests_ GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ GUARDED_BY(mutex_) = 0;
};

// Buffers of one block each; as many as the budget has room for. Thread-safe.
class BlockBuffers {
 public:
  BlockBuffers(std::size_t block_size, std::size_t count) : block_size_(block_size), left_(count) {}

  using Buffer = std::unique_ptr<std::byte[]>;
  Result<Buffer> Take(const Context& ctx);
  void GiveBack(Buffer buffer);

 private:
  const std::size_t block_size_;
  Mutex mutex_;
  CondVar returned_;
  std::size_t left_ GUARDED_BY(mutex_);  // not yet made
  std::vector<Buffer> free_ GUARDED_BY(mutex_);
};

// Reads files from the source straight into blocks and uploads the blocks: small files into shared
// packs, in the order they are added, larger ones block by block.
//
// Add, Flush, WaitIdle and TakeRetries are called by one thread. What is stored goes to `stored`,
// which may block and is called from the upload threads.
class Transfer {
 public:
  using Stored = std::function<void(StoredFiles)>;

  // `journal` may be null; it and `state` outlive this object.
  Transfer(ImportState& state, ImportJournal* journal, Stored stored);
  // Waits for what is under way; abort the import first unless it is done.
  ~Transfer();

  // Waits for room. Fails only when the import is stopped.
  Result<void> Add(ImportItem item);
  // No more files go into the open pack.
  void Flush();
  // Waits until nothing is being read or uploaded.
  Result<void> WaitIdle();
  // Files that changed while they were read, to be added again with fresh facts.
  std::vector<ImportItem> TakeRetries();

 private:
  struct Pack;
  struct BigFile;

  Result<void> AddSmall(ImportItem item);
  Result<void> AddBig(ImportItem item);
  Result<void> OpenPack();
  Result<void> StartBlock(const std::shared_ptr<BigFile>& file, std::uint64_t offset,
                          const BlockId& block);
  void PackRead(const std::shared_ptr<Pack>& pack);
  void StorePack(Pack& pack);
  void StoreBlock(BigFile& file, const BlockId& block, std::span<const std::byte> content);
  Result<void> Recheck(const BigFile& file);
  void FinishBig(BigFile& file);
  Result<void> StoreObject(const BlockId& block, std::span<const std::byte> content);
  // Sorts out a read that did not give the whole file as listed.
  void NotRead(ImportItem item, Status error);
  void NoteSourceAnswer(bool answered);
  NewFile MakeFile(const ImportItem& item) const;
  void Begun() EXCLUDES(mutex_);
  void Ended() EXCLUDES(mutex_);

  ImportState& state_;
  ImportJournal* const journal_;
  const Stored stored_;
  const BlockLayout layout_;
  PackLayout packing_;
  InFlight reading_;
  const std::shared_ptr<BlockBuffers> buffers_;  // outlived by buffers of late callbacks
  std::shared_ptr<Pack> open_;
  std::atomic<int> unanswered_{0};  // reads in a row that the source did not answer

  Mutex mutex_;
  CondVar idle_;
  std::size_t busy_ GUARDED_BY(mutex_) = 0;  // packs and big files not yet dealt with
  std::vector<ImportItem> retries_ GUARDED_BY(mutex_);
  ThreadPool uploads_;  // last: its tasks use the above
};

}  // namespace paddleop::volume::data
