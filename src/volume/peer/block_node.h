#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <semaphore>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "net/http_server.h"
#include "runtime/protocol/status.h"
#include "volume/cache/disk_cache.h"
#include "volume/chunk/block_store.h"
#include "volume/peer/block_wire.h"
#include "volume/peer/peer_link.h"

namespace paddleop::volume {

// One partition's part in the exchange of blocks: it reads on behalf of mounts of its node, and
// answers other partitions.
//
// A read is served by the cache, else by the partition that has the bytes, else by the object
// store, which is asked by the block's owner (rendezvous.h) only: each byte leaves the store once
// per set, as long as the owner can be reached and has room to keep it. Concurrent reads of one
// block are one fetch.
//
// Thread-safe. At most kMaxFinds reads that may have to ask others run at a time; further ones wait
// within their deadline. Requests that only look into the cache never wait for them, so two
// runtimes cannot wait for each other.
class BlockNode {
 public:
  static constexpr std::ptrdiff_t kMaxFinds = 24;
  static constexpr std::size_t kMaxChecked = 4096;  // blocks of one question
  static constexpr std::size_t kMaxHolders = 2'000'000;

  // `store` reads the object store without a cache of its own. All are borrowed.
  BlockNode(BlockLayout layout, DiskCache& cache, BlockStore& store, PeerLink& link,
            const Logger& log, MetricsRegistry& metrics);

  // Fills `out` with bytes from `offset` on, wherever they are. `for_peer`: on behalf of another
  // partition, which has asked its own cache already. kNotFound if the store does not have the
  // block.
  Result<BlockFrom> Find(const Context& ctx, const BlockId& block, std::uint32_t offset,
                         std::span<std::byte> out, bool for_peer);

  // Fills `out` with the whole block: from this cache, from the partitions in `holders` that are
  // said to have it whole, or from the store. Keeps nothing: for a warm-up, which says what is kept
  // and where.
  Result<BlockFrom> FetchWhole(const Context& ctx, const BlockId& block,
                               std::span<const std::uint32_t> holders, std::span<std::byte> out);

  // What is here of the wishes; what is here is pinned under `plan`, unless that is empty. Where
  // the caches cannot hold the set (`tight`), ranges of a block that is here whole count as
  // missing: when they come, they take the whole block's place; and of a block of which ranges are
  // here, those that only earlier plans of the family wanted go. Plans are of one family if their
  // names are the same up to the last dot.
  Result<std::vector<BlockHave>> Check(const Context& ctx, std::span<const BlockWish> wishes,
                                       std::string_view plan, bool tight);
  // Keeps what was wished for of a block; `content` is its bytes, one range after the other.
  Result<void> Take(const Context& ctx, const BlockWish& wish, std::span<const std::byte> content,
                    std::string_view plan);
  // Removes the blocks from this cache, with their pins.
  Result<void> Drop(const Context& ctx, std::span<const BlockId> blocks);
  // Takes away the pins of all plans that begin with `prefix`, except `keep`.
  Result<void> Unpin(const Context& ctx, std::string_view prefix, std::string_view keep);

  // Tells this node, as the owner of the block, which partition was given what: so that it need not
  // ask around. At most kMaxHolders ranges are remembered; the rest is found by asking.
  void Remember(const BlockId& block, std::uint32_t partition, const BlockWish& wish);

  // Answers the requests of block_wire.h; nullopt for other paths. `local`: from the socket of this
  // node, where only reading is possible.
  std::optional<net::ServerResponse> Serve(const Context& ctx, const net::ServerRequest& request,
                                           bool local);

  // Reads of this node's mounts that came to the runtime.
  runtime::ReadCounts counts() const;

 private:
  struct Flight;
  struct Counters {
    std::atomic<std::uint64_t> reads = 0;
    std::atomic<std::uint64_t> bytes = 0;
    MetricsRegistry::Counter* metric_reads = nullptr;
    MetricsRegistry::Counter* metric_bytes = nullptr;
    MetricsRegistry::Counter* metric_fetched = nullptr;
  };

  Result<BlockFrom> FindElsewhere(const Context& ctx, const BlockId& block, std::uint32_t offset,
                                  std::span<std::byte> out, bool for_peer);
  Result<void> DropRest(const BlockWish& wish, std::string_view plan);
  // The partition that a warm-up gave these bytes.
  std::optional<std::uint32_t> Holder(const BlockId& block, std::uint32_t offset,
                                      std::uint32_t size);
  // The partition, other than this one, that has these bytes.
  std::optional<std::uint32_t> AskOthers(const Context& ctx, const BlockId& block,
                                         std::uint32_t offset, std::uint32_t size);
  // Brings the whole block from `peer`, or from the store if that is nullopt, into the cache; one
  // fetch for all that want it.
  Result<BlockFrom> Bring(const Context& ctx, const BlockId& block, std::uint32_t offset,
                          std::span<std::byte> out, std::optional<std::uint32_t> peer);
  bool HasRoom(std::uint32_t bytes);
  net::ServerResponse ServeRead(const Context& ctx, const net::ServerRequest& request,
                                const BlockId& block, bool local);
  net::ServerResponse ServeTake(const Context& ctx, const net::ServerRequest& request,
                                const BlockId& block);
  net::ServerResponse ServeCheck(const Context& ctx, const net::ServerRequest& request);
  Counters& Of(BlockFrom from) { return counters_[static_cast<std::size_t>(from)]; }

  const BlockLayout layout_;
  DiskCache& cache_;
  BlockStore& store_;
  PeerLink& link_;
  const Logger& log_;
  Counters counters_[3];
  MetricsRegistry::Counter& given_;
  std::counting_semaphore<kMaxFinds> finds_{kMaxFinds};
  Mutex mutex_;
  std::map<BlockId, std::shared_ptr<Flight>> flights_ GUARDED_BY(mutex_);
  struct Held {
    std::uint32_t partition = 0;
    ByteSpan range;
  };
  std::map<BlockId, std::vector<Held>> holders_ GUARDED_BY(mutex_);
  std::size_t holder_count_ GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point room_asked_ GUARDED_BY(mutex_);
  std::uint64_t room_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paddleop::volume
