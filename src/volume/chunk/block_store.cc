#include "volume/chunk/block_store.h"

#include <algorithm>
#include <cstring>
#include <latch>
#include <utility>
#include <vector>

namespace paddleop::volume {

// One download that several readers wait for.
struct BlockStore::Fetch {
  Mutex mutex;
  CondVar done_changed;
  bool done GUARDED_BY(mutex) = false;
  Result<void> result GUARDED_BY(mutex);
  BufferBudget::Lease lease;  // of `content`
  BlockBuffer content;        // written by the fetching thread before `done`, then only read
};

BlockStore::BlockStore(BlockStoreOptions options, object::ObjectStore& store, CacheStore* cache,
                       const Logger& log)
    : options_(std::move(options)),
      store_(store),
      cache_(cache),
      log_(log),
      budget_(options_.buffer_bytes),
      buffers_(std::make_shared<BlockBufferPool>(options_.layout.block_size)),
      downloads_({.name = "block-get", .threads = options_.max_downloads, .queue_limit = 4096}),
      prefetches_(
          {.name = "block-ahead", .threads = options_.max_downloads / 2 + 1, .queue_limit = 256}),
      uploads_({.name = "block-put", .threads = options_.max_uploads, .queue_limit = 1024}) {}

BlockStore::~BlockStore() { stop_.request_stop(); }

bool BlockStore::AskPeer(const Context& ctx, const BlockId& block, std::uint32_t offset,
                         std::span<std::byte> out) {
  if (!options_.peer) return false;
  auto near = options_.peer(ctx.WithTimeout(options_.get_timeout), block, offset, out);
  if (near) return true;
  log_.Debug(ctx, "no peer has the block",
             {{"block", BlockKey(options_.layout, block)}, {"error", near.error().message()}});
  return false;
}

Result<void> BlockStore::Download(const Context& ctx, const BlockId& block,
                                  std::span<std::byte> plain) {
  const std::string key = BlockKey(options_.layout, block);
  if (AskPeer(ctx, block, 0, plain)) return {};
  RETURN_IF_ERROR(ctx.Check());
  const Context bounded = ctx.WithTimeout(options_.get_timeout);
  const auto short_read = [&](std::size_t got) {
    return Fail(Code::kCorrupt, "object {}{} has {} bytes, expected {}", store_.name(), key, got,
                plain.size());
  };
  if (options_.compression == Compression::kNone) {
    ASSIGN_OR_RETURN(auto got, store_.Get(bounded, key, {}, plain));
    if (got.size != plain.size()) return short_read(got.size);
    return {};
  }
  // Neither format grows a block by more than this.
  std::vector<std::byte> stored(plain.size() + plain.size() / 8 + 1024);
  ASSIGN_OR_RETURN(auto got, store_.Get(bounded, key, {}, stored));
  auto opened = DecompressBlock(options_.compression,
                                {reinterpret_cast<const char*>(stored.data()), got.size}, plain);
  if (!opened)
    return std::unexpected(std::move(opened).error().Wrap("object " + store_.name() + key));
  return {};
}

void BlockStore::Finish(const BlockId& block, const std::shared_ptr<Fetch>& fetch,
                        Result<void> result) {
  {
    MutexLock lock(mutex_);
    fetches_.erase(block);
  }
  MutexLock lock(fetch->mutex);
  fetch->done = true;
  fetch->result = std::move(result);
  fetch->done_changed.notify_all();
}

Result<void> BlockStore::FetchBlock(const Context& ctx, const BlockId& block,
                                    const BlockContentFn& use) {
  ASSIGN_OR_RETURN(const BlockContent content, FetchWhole(ctx, block, false));
  use(content->bytes());
  return {};
}

Result<BlockStore::BlockContent> BlockStore::FetchBlock(const Context& ctx, const BlockId& block) {
  return FetchWhole(ctx, block, false);
}

Result<BlockStore::BlockContent> BlockStore::FetchWhole(const Context& ctx, const BlockId& block,
                                                        bool offer) {
  for (;;) {
    std::shared_ptr<Fetch> fetch;
    bool ours = false;
    {
      MutexLock lock(mutex_);
      auto& slot = fetches_[block];
      if (!slot) {
        slot = std::make_shared<Fetch>();
        ours = true;
      }
      fetch = slot;
    }
    if (ours) {
      auto result = [&]() -> Result<void> {
        ASSIGN_OR_RETURN(fetch->lease, budget_.Acquire(ctx, block.length));
        fetch->lease.SetLeaving(true);  // readers wait for no writer
        fetch->content = buffers_->Take(block.length);
        RETURN_IF_ERROR(Download(ctx, block, fetch->content.bytes()));
        if (offer && cache_ != nullptr) cache_->Put(ctx, block, fetch->content.bytes());
        return {};
      }();
      Finish(block, fetch, result);
      RETURN_IF_ERROR(result);
      return BlockContent(fetch, &fetch->content);
    }
    MutexLock lock(fetch->mutex);
    auto done = [&]() REQUIRES(fetch->mutex) { return fetch->done; };
    if (ctx.has_deadline()) {
      fetch->done_changed.wait_until(lock, ctx.stop(), ctx.deadline(), done);
    } else {
      fetch->done_changed.wait(lock, ctx.stop(), done);
    }
    if (!fetch->done) {
      RETURN_IF_ERROR(ctx.Check());
      return Fail(Code::kDeadline, "block {} did not arrive in time",
                  BlockKey(options_.layout, block));
    }
    if (fetch->result) return BlockContent(fetch, &fetch->content);
    // The other reader may have given up for reasons of its own; then it is our turn.
    const Code code = fetch->result.error().code();
    if (code != Code::kCancelled && code != Code::kDeadline)
      return std::unexpected(fetch->result.error());
    RETURN_IF_ERROR(ctx.Check());
  }
}

Result<void> BlockStore::ReadBlock(const Context& ctx, const BlockId& block, std::uint32_t offset,
                                   std::span<std::byte> out) {
  if (out.empty()) return {};
  if (std::uint64_t{offset} + out.size() > block.length) {
    return Fail(Code::kInvalid, "read of {} bytes at {} in block {}", out.size(), offset,
                BlockKey(options_.layout, block));
  }
  if (cache_ != nullptr && cache_->Read(ctx, block, offset, out)) return {};
  if (AskPeer(ctx, block, offset, out)) return {};
  RETURN_IF_ERROR(ctx.Check());
  if (cache_ != nullptr) {
    ASSIGN_OR_RETURN(const BlockContent content, FetchWhole(ctx, block, true));
    std::memcpy(out.data(), content->bytes().data() + offset, out.size());
    return {};
  }
  // Without a cache the rest of the block would be thrown away, so only the range is fetched.
  return FetchRange(ctx, block, offset, out);
}

Result<void> BlockStore::FetchPart(const Context& ctx, const BlockId& block, std::uint32_t offset,
                                   std::span<std::byte> out) {
  if (AskPeer(ctx, block, offset, out)) return {};
  RETURN_IF_ERROR(ctx.Check());
  return FetchRange(ctx, block, offset, out);
}

Result<void> BlockStore::FetchRange(const Context& ctx, const BlockId& block, std::uint32_t offset,
                                    std::span<std::byte> out) {
  if (!ranges_are_cheap()) {
    ASSIGN_OR_RETURN(const BlockContent content, FetchWhole(ctx, block, true));
    std::memcpy(out.data(), content->bytes().data() + offset, out.size());
    return {};
  }
  const std::string key = BlockKey(options_.layout, block);
  ASSIGN_OR_RETURN(auto got, store_.Get(ctx.WithTimeout(options_.get_timeout), key,
                                        {.range = {.offset = offset, .length = out.size()}}, out));
  if (got.size != out.size()) {
    return Fail(Code::kCorrupt, "object {}{} ends at {}, expected {} bytes", store_.name(), key,
                offset + got.size, block.length);
  }
  return {};
}

Result<void> BlockStore::ReadSlice(const Context& ctx, const SliceKey& slice, std::uint32_t offset,
                                   std::span<std::byte> out) {
  if (out.empty()) return {};
  if (std::uint64_t{offset} + out.size() > slice.size) {
    return Fail(Code::kCorrupt, "slice {} has {} bytes, read of {} at {}", slice.id, slice.size,
                out.size(), offset);
  }
  struct Piece {
    BlockId block;
    std::uint32_t offset;
    std::span<std::byte> out;
  };
  std::vector<Piece> pieces;
  const std::uint32_t size = options_.layout.block_size;
  for (std::uint64_t at = offset, end = offset + out.size(); at < end;) {
    const auto index = static_cast<std::uint32_t>(at / size);
    const auto inside = static_cast<std::uint32_t>(at % size);
    const auto count = std::min<std::uint64_t>(size - inside, end - at);
    pieces.push_back({BlockOf(slice, index), inside, out.subspan(at - offset, count)});
    at += count;
  }
  if (pieces.size() == 1) return ReadBlock(ctx, pieces[0].block, pieces[0].offset, pieces[0].out);

  std::vector<Result<void>> results(pieces.size());
  std::latch left(static_cast<std::ptrdiff_t>(pieces.size()) - 1);
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    auto read = [&, i] {
      results[i] = ReadBlock(ctx, pieces[i].block, pieces[i].offset, pieces[i].out);
      left.count_down();
    };
    // A full queue means there is no parallelism to gain; this thread does the work itself.
    if (!downloads_.TrySubmit(read)) read();
  }
  results[0] = ReadBlock(ctx, pieces[0].block, pieces[0].offset, pieces[0].out);
  left.wait();
  for (auto& result : results) RETURN_IF_ERROR(std::move(result));
  return {};
}

void BlockStore::Prefetch(const BlockId& block) {
  if (cache_ == nullptr || cache_->Contains(block)) return;
  {
    MutexLock lock(mutex_);
    if (fetches_.contains(block)) return;
  }
  const bool queued = prefetches_.TrySubmit([this, block] {
    if (cache_->Contains(block)) return;
    const Context ctx =
        Context::Background().WithStop(stop_.get_token()).WithTimeout(options_.get_timeout);
    // A peer that is asked for a byte brings the block if there is room for it.
    std::byte first;
    if (AskPeer(ctx, block, 0, std::span(&first, 1))) return;
    auto fetched = FetchWhole(ctx, block, true);
    if (!fetched) {
      log_.Debug(
          ctx, "prefetch failed",
          {{"block", BlockKey(options_.layout, block)}, {"error", fetched.error().message()}});
    }
  });
  if (!queued) log_.Debug(Context::Background(), "prefetch dropped, too many are waiting");
}

Result<void> BlockStore::WriteBlock(const Context& ctx, const BlockId& block,
                                    std::span<const std::byte> plain) {
  if (plain.size() != block.length) {
    return Fail(Code::kInternal, "block {} written with {} bytes", BlockKey(options_.layout, block),
                plain.size());
  }
  const std::string key = BlockKey(options_.layout, block);
  const Context bounded = ctx.WithTimeout(options_.put_timeout);
  if (options_.compression == Compression::kNone) {
    RETURN_IF_ERROR(store_.Put(bounded, key, plain, {}));
  } else {
    ASSIGN_OR_RETURN(const std::string stored,
                     CompressBlock(options_.compression,
                                   {reinterpret_cast<const char*>(plain.data()), plain.size()}));
    RETURN_IF_ERROR(store_.Put(bounded, key, std::as_bytes(std::span(stored)), {}));
  }
  const bool full = block.length == options_.layout.block_size;
  if (cache_ != nullptr && (!full || options_.cache_full_writes)) cache_->Put(ctx, block, plain);
  return {};
}

Result<void> BlockStore::DeleteSlice(const Context& ctx, const SliceKey& slice) {
  std::vector<std::string> keys;
  for (std::uint32_t i = 0; i < BlockCount(options_.layout, slice.size); ++i) {
    const BlockId block = BlockOf(slice, i);
    if (cache_ != nullptr) cache_->Remove(block);
    keys.push_back(BlockKey(options_.layout, block));
  }
  if (keys.size() == 1) return store_.Delete(ctx, keys[0]);
  ASSIGN_OR_RETURN(auto left, store_.DeleteMany(ctx, keys));
  if (!left.empty()) return std::unexpected(left[0].error.Wrap("delete " + left[0].key));
  return {};
}

std::vector<Result<void>> BlockStore::DeleteSlices(const Context& ctx,
                                                   std::span<const SliceKey> slices) {
  std::vector<Result<void>> results(slices.size());
  std::map<std::uint64_t, std::size_t> positions;
  std::vector<std::string> keys;
  for (std::size_t at = 0; at < slices.size(); ++at) {
    positions[slices[at].id] = at;
    for (std::uint32_t i = 0; i < BlockCount(options_.layout, slices[at].size); ++i) {
      const BlockId block = BlockOf(slices[at], i);
      if (cache_ != nullptr) cache_->Remove(block);
      keys.push_back(BlockKey(options_.layout, block));
    }
  }
  auto left = store_.DeleteMany(ctx, keys);
  if (!left) {
    std::fill(results.begin(), results.end(), Result<void>(std::unexpected(left.error())));
    return results;
  }
  for (const object::KeyError& failed : *left) {
    const auto block = ParseBlockKey(failed.key.substr(failed.key.rfind('/') + 1));
    if (!block) continue;
    results[positions[block->slice]] = std::unexpected(failed.error.Wrap("delete " + failed.key));
  }
  return results;
}

}  // namespace paddleop::volume
