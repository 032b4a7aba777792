#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "volume/cache/cache_store.h"
#include "volume/chunk/block_buffer.h"
#include "volume/chunk/buffer_budget.h"
#include "volume/format/compression.h"
#include "volume/format/object_key.h"
#include "volume/format/types.h"
#include "volume/object/object_store.h"

namespace paddleop::volume {

// Asks somebody nearby for bytes of a block, from `offset` on, before the object store is: fills
// `plain`, or fails, and then the store is asked. Readers ask for just what they want: where caches
// hold parts of blocks, nobody may have a whole one. Called from many threads; has to keep to the
// context's deadline.
using BlockPeer = std::function<Result<void>(const Context& ctx, const BlockId& block,
                                             std::uint32_t offset, std::span<std::byte> plain)>;

struct BlockStoreOptions {
  BlockLayout layout;
  Compression compression = Compression::kNone;
  std::size_t max_downloads = 32;
  std::size_t max_uploads = 20;
  std::uint64_t buffer_bytes = 128ULL << 20;  // of blocks on their way in and out, caches aside
  std::chrono::milliseconds get_timeout{60'000};
  std::chrono::milliseconds put_timeout{60'000};
  BlockPeer peer = {};            // may be empty
  bool cache_full_writes = true;  // offer full blocks to the cache once they are uploaded, too
};

// Blocks of a volume: from the cache, else from the object store; to the object store.
//
// Concurrent reads of one block are one request. Buffers are bounded: callers wait for one within
// their deadline. A block the store does not have is kNotFound: the caller reads its slices again,
// since compaction may have replaced them.
//
// Thread-safe.
class BlockStore {
 public:
  // `store` holds the keys below the volume's prefix. `cache` may be null; both outlive this
  // object.
  BlockStore(BlockStoreOptions options, object::ObjectStore& store, CacheStore* cache,
             const Logger& log);
  ~BlockStore();

  // Fills `out` with bytes [offset, offset + out.size()) of the slice. Blocks are fetched in
  // parallel.
  Result<void> ReadSlice(const Context& ctx, const SliceKey& slice, std::uint32_t offset,
                         std::span<std::byte> out);
  // The same within one block.
  Result<void> ReadBlock(const Context& ctx, const BlockId& block, std::uint32_t offset,
                         std::span<std::byte> out);
  // Fetches the whole block past the cache and shows it to `use` before it returns. Joins a fetch
  // of the same block that is under way.
  using BlockContentFn = std::function<void(std::span<const std::byte> plain)>;
  Result<void> FetchBlock(const Context& ctx, const BlockId& block, const BlockContentFn& use);
  // The same for who keeps the content: it counts as a buffer in flight as long as it is held.
  using BlockContent = std::shared_ptr<const BlockBuffer>;
  Result<BlockContent> FetchBlock(const Context& ctx, const BlockId& block);
  // Reads a range of a block past the caches and peers, moving only that range where the store and
  // the compression allow it.
  Result<void> FetchRange(const Context& ctx, const BlockId& block, std::uint32_t offset,
                          std::span<std::byte> out);
  // The same, but somebody nearby is asked first.
  Result<void> FetchPart(const Context& ctx, const BlockId& block, std::uint32_t offset,
                         std::span<std::byte> out);
  // True if FetchRange moves only the range.
  bool ranges_are_cheap() const {
    return options_.compression == Compression::kNone && store_.traits().ranges;
  }
  // Starts to bring the block into the cache; does nothing without a cache or while too much is
  // going on.
  void Prefetch(const BlockId& block);

  // Uploads the plain content. What was written is offered to the cache, full blocks only if the
  // options say so.
  Result<void> WriteBlock(const Context& ctx, const BlockId& block,
                          std::span<const std::byte> plain);
  // Deletes all objects of the slice; those that are gone already are fine.
  Result<void> DeleteSlice(const Context& ctx, const SliceKey& slice);
  // The same for many, with as few requests as the store allows. One answer for each.
  std::vector<Result<void>> DeleteSlices(const Context& ctx, std::span<const SliceKey> slices);

  const BlockStoreOptions& options() const { return options_; }
  BlockId BlockOf(const SliceKey& slice, std::uint32_t index) const {
    return {.slice = slice.id,
            .index = index,
            .length = BlockLength(options_.layout, slice.size, index)};
  }
  BufferBudget& budget() { return budget_; }
  BlockBufferPool& buffers() { return *buffers_; }
  ThreadPool& uploads() { return uploads_; }

 private:
  struct Fetch;

  Result<BlockContent> FetchWhole(const Context& ctx, const BlockId& block, bool offer);
  Result<void> Download(const Context& ctx, const BlockId& block, std::span<std::byte> plain);
  // True if the peer gave the bytes.
  bool AskPeer(const Context& ctx, const BlockId& block, std::uint32_t offset,
               std::span<std::byte> out);
  void Finish(const BlockId& block, const std::shared_ptr<Fetch>& fetch, Result<void> result);

  const BlockStoreOptions options_;
  object::ObjectStore& store_;
  CacheStore* const cache_;
  const Logger& log_;
  BufferBudget budget_;
  const std::shared_ptr<BlockBufferPool> buffers_;  // outlived by content that others keep
  Mutex mutex_;
  std::map<BlockId, std::shared_ptr<Fetch>> fetches_ GUARDED_BY(mutex_);
  std::stop_source stop_;
  ThreadPool downloads_;
  ThreadPool prefetches_;
  ThreadPool uploads_;
};

}  // namespace paddleop::volume
