#include "volume/peer/block_node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "volume/peer/metrics.h"
#include "volume/peer/rendezvous.h"

namespace paddleop::volume {
namespace {

constexpr std::chrono::milliseconds kRoomAge{500};

// Holds a place among those that may ask others.
class FindPlace {
 public:
  explicit FindPlace(std::counting_semaphore<BlockNode::kMaxFinds>& places, const Context& ctx)
      : places_(places) {
    held_ = places_.try_acquire_for(ctx.Remaining(std::chrono::seconds(60)));
  }
  ~FindPlace() {
    if (held_) places_.release();
  }
  FindPlace(const FindPlace&) = delete;
  FindPlace& operator=(const FindPlace&) = delete;
  bool held() const { return held_; }

 private:
  std::counting_semaphore<BlockNode::kMaxFinds>& places_;
  bool held_ = false;
};

}  // namespace

// One fetch of a whole block that several readers wait for.
struct BlockNode::Flight {
  Mutex mutex;
  CondVar landed;
  bool done GUARDED_BY(mutex) = false;
  Result<BlockFrom> result GUARDED_BY(mutex) = BlockFrom::kStore;
  std::vector<std::byte> content;  // written before `done`, then only read
};

BlockNode::BlockNode(BlockLayout layout, DiskCache& cache, BlockStore& store, PeerLink& link,
                     const Logger& log, MetricsRegistry& metrics)
    : layout_(layout),
      cache_(cache),
      store_(store),
      link_(link),
      log_(log),
      given_(metrics.AddCounter(metric::kPeerGivenBytes, metric::kPeerGivenBytesHelp)) {
  for (const BlockFrom from : {BlockFrom::kCache, BlockFrom::kPeer, BlockFrom::kStore}) {
    const MetricsRegistry::Labels labels = {{"from", std::string(BlockFromName(from))}};
    Of(from).metric_reads = &metrics.AddCounter(metric::kPeerReads, metric::kPeerReadsHelp, labels);
    Of(from).metric_bytes =
        &metrics.AddCounter(metric::kPeerReadBytes, metric::kPeerReadBytesHelp, labels);
    Of(from).metric_fetched =
        &metrics.AddCounter(metric::kPeerFetched, metric::kPeerFetchedHelp, labels);
  }
}

Result<BlockFrom> BlockNode::Find(const Context& ctx, const BlockId& block, std::uint32_t offset,
                                  std::span<std::byte> out, bool for_peer) {
  if (cache_.Read(ctx, block, offset, out)) return BlockFrom::kCache;
  const FindPlace place(finds_, ctx);
  if (!place.held()) return Fail(Code::kUnavailable, "too many reads wait for other partitions");
  return FindElsewhere(ctx, block, offset, out, for_peer);
}

Result<BlockFrom> BlockNode::FindElsewhere(const Context& ctx, const BlockId& block,
                                           std::uint32_t offset, std::span<std::byte> out,
                                           bool for_peer) {
  const std::uint32_t owner = OwnerOf(block, link_.count());
  if (owner != link_.self() && !for_peer) {
    if (HasRoom(block.length)) {
      // Neighbours in a pack are read next; only what the owner has is taken whole.
      if (auto from = Bring(ctx, block, offset, out, owner)) return BlockFrom::kPeer;
    }
    auto from = link_.Read(ctx, owner, block, offset, out, true);
    if (from) return *from == BlockFrom::kStore ? BlockFrom::kStore : BlockFrom::kPeer;
    if (IsNotFound(from.error())) return from;
    RETURN_IF_ERROR(ctx.Check());
    log_.Debug(ctx, "owner of a block does not answer",
               {{"partition", owner}, {"error", from.error().message()}});
  }
  const auto size = static_cast<std::uint32_t>(out.size());
  if (const auto holder = Holder(block, offset, size); holder && *holder != link_.self()) {
    if (link_.Read(ctx, *holder, block, offset, out, false)) return BlockFrom::kPeer;
  }
  if (const auto holder = AskOthers(ctx, block, offset, size)) {
    if (link_.Read(ctx, *holder, block, offset, out, false)) return BlockFrom::kPeer;
  }
  return Bring(ctx, block, offset, out, std::nullopt);
}

void BlockNode::Remember(const BlockId& block, std::uint32_t partition, const BlockWish& wish) {
  MutexLock lock(mutex_);
  auto& held = holders_[block];
  holder_count_ -= std::erase_if(held, [&](const Held& h) { return h.partition == partition; });
  const std::vector<ByteSpan> all = {{.begin = 0, .end = block.length}};
  for (const ByteSpan& range : wish.whole ? all : wish.ranges) {
    if (holder_count_ >= kMaxHolders) return;
    held.push_back({.partition = partition, .range = range});
    ++holder_count_;
  }
}

std::optional<std::uint32_t> BlockNode::Holder(const BlockId& block, std::uint32_t offset,
                                               std::uint32_t size) {
  MutexLock lock(mutex_);
  const auto found = holders_.find(block);
  if (found == holders_.end()) return std::nullopt;
  for (const Held& held : found->second) {
    if (held.range.begin <= offset && offset + size <= held.range.end) return held.partition;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> BlockNode::AskOthers(const Context& ctx, const BlockId& block,
                                                  std::uint32_t offset, std::uint32_t size) {
  const std::uint32_t count = link_.count();
  const BlockWish wish{.block = block, .ranges = {{.begin = offset, .end = offset + size}}};
  for (std::uint32_t step = 1; step < count; ++step) {
    const std::uint32_t peer = (link_.self() + step) % count;
    auto haves = link_.Check(ctx, peer, {&wish, 1}, "", false);
    if (haves && haves->front().wish) return peer;
  }
  return std::nullopt;
}

Result<BlockFrom> BlockNode::Bring(const Context& ctx, const BlockId& block, std::uint32_t offset,
                                   std::span<std::byte> out, std::optional<std::uint32_t> peer) {
  std::shared_ptr<Flight> flight;
  bool ours = false;
  {
    MutexLock lock(mutex_);
    auto& slot = flights_[block];
    if (!slot) {
      slot = std::make_shared<Flight>();
      ours = true;
    }
    flight = slot;
  }
  if (ours) {
    Result<BlockFrom> result = BlockFrom::kCache;
    // Whoever flew before us may just have landed.
    if (!cache_.Read(ctx, block, offset, out)) {
      flight->content.resize(block.length);
      if (peer) {
        result = link_.Read(ctx, *peer, block, 0, flight->content, false);
        if (result) result = BlockFrom::kPeer;
      } else if (auto read = store_.ReadBlock(ctx, block, 0, flight->content); !read) {
        result = std::unexpected(std::move(read).error());
      } else {
        result = BlockFrom::kStore;
      }
      if (result) {
        std::memcpy(out.data(), flight->content.data() + offset, out.size());
        cache_.Put(ctx, block, flight->content);
        Of(*result).metric_fetched->Increment();
      }
    }
    {
      MutexLock lock(mutex_);
      flights_.erase(block);
    }
    MutexLock lock(flight->mutex);
    flight->done = true;
    flight->result = result;
    flight->landed.notify_all();
    return result;
  }
  MutexLock lock(flight->mutex);
  const bool landed = flight->landed.wait_until(
      lock, ctx.stop(), std::chrono::steady_clock::now() + ctx.Remaining(std::chrono::seconds(60)),
      [&]() REQUIRES(flight->mutex) { return flight->done; });
  if (!landed) {
    RETURN_IF_ERROR(ctx.Check());
    return Fail(Code::kDeadline, "block {} did not come in time", BlockName(block));
  }
  if (!flight->result) return flight->result;
  if (flight->content.empty()) {  // it was in the cache
    if (cache_.Read(ctx, block, offset, out)) return BlockFrom::kCache;
    return Fail(Code::kUnavailable, "block {} left the cache while it was read", BlockName(block));
  }
  std::memcpy(out.data(), flight->content.data() + offset, out.size());
  return flight->result;
}

Result<BlockFrom> BlockNode::FetchWhole(const Context& ctx, const BlockId& block,
                                        std::span<const std::uint32_t> holders,
                                        std::span<std::byte> out) {
  const auto done = [&](BlockFrom from) {
    Of(from).metric_fetched->Increment();
    return from;
  };
  if (cache_.Contains(block) && cache_.Read(ctx, block, 0, out)) return done(BlockFrom::kCache);
  for (const std::uint32_t holder : holders) {
    if (holder == link_.self()) continue;
    if (link_.Read(ctx, holder, block, 0, out, false)) return done(BlockFrom::kPeer);
    RETURN_IF_ERROR(ctx.Check());
  }
  RETURN_IF_ERROR(store_.ReadBlock(ctx, block, 0, out));
  return done(BlockFrom::kStore);
}

bool BlockNode::HasRoom(std::uint32_t bytes) {
  const auto now = std::chrono::steady_clock::now();
  {
    MutexLock lock(mutex_);
    if (now - room_asked_ < kRoomAge) {
      if (room_ < bytes) return false;
      room_ -= bytes;
      return true;
    }
    room_asked_ = now;
  }
  std::uint64_t room = 0;
  for (const CacheDirectoryStatus& status : cache_.Status()) {
    if (!status.usable || !status.admitting) continue;
    if (status.directory.capacity > status.bytes) room += status.directory.capacity - status.bytes;
  }
  MutexLock lock(mutex_);
  room_ = room;
  return room_ >= bytes;
}

Result<std::vector<BlockHave>> BlockNode::Check(const Context& ctx,
                                                std::span<const BlockWish> wishes,
                                                std::string_view plan, bool tight) {
  std::vector<BlockHave> haves;
  haves.reserve(wishes.size());
  for (const BlockWish& wish : wishes) {
    RETURN_IF_ERROR(ctx.Check());
    BlockHave have{.whole = cache_.Contains(wish.block)};
    have.wish = have.whole;
    if (tight && !plan.empty() && !have.whole && !wish.whole && !wish.ranges.empty()) {
      RETURN_IF_ERROR(DropRest(wish, plan));
    }
    if (!have.whole && !wish.whole && !wish.ranges.empty()) {
      have.wish = std::ranges::all_of(wish.ranges, [&](const ByteSpan& range) {
        return cache_.ContainsRange(wish.block, range.begin, range.end - range.begin);
      });
    }
    if (have.wish && !plan.empty() && wish.wants_something()) {
      // Pinned whole it would take the room of what others left here; Take() keeps the ranges.
      if (tight && have.whole && !wish.whole) {
        have.wish = false;
      } else {
        ASSIGN_OR_RETURN(have.wish, cache_.Pin(wish.block, plan));
      }
    }
    haves.push_back(have);
  }
  return haves;
}

// What an earlier order of the same files wanted of this block would be pinned with it otherwise.
Result<void> BlockNode::DropRest(const BlockWish& wish, std::string_view plan) {
  std::vector<BlockFile::Span> keep;
  keep.reserve(wish.ranges.size());
  for (const ByteSpan& range : wish.ranges) {
    keep.push_back({.offset = range.begin, .size = range.end - range.begin});
  }
  return cache_.Trim(wish.block, keep, plan.substr(0, plan.rfind('.') + 1));
}

Result<void> BlockNode::Take(const Context& ctx, const BlockWish& wish,
                             std::span<const std::byte> content, std::string_view plan) {
  if (wish.whole) return cache_.Store(ctx, wish.block, content, plan);
  if (cache_.Contains(wish.block)) cache_.Remove(wish.block);
  std::size_t at = 0;
  for (const ByteSpan& range : wish.ranges) {
    const std::size_t size = range.end - range.begin;
    RETURN_IF_ERROR(
        cache_.StoreRange(ctx, wish.block, range.begin, content.subspan(at, size), plan));
    at += size;
  }
  return {};
}

Result<void> BlockNode::Drop(const Context& ctx, std::span<const BlockId> blocks) {
  for (const BlockId& block : blocks) {
    RETURN_IF_ERROR(ctx.Check());
    RETURN_IF_ERROR(cache_.Clear(ctx, block, {}));
    MutexLock lock(mutex_);
    const auto held = holders_.find(block);
    if (held == holders_.end()) continue;
    holder_count_ -= held->second.size();
    holders_.erase(held);
  }
  return {};
}

Result<void> BlockNode::Unpin(const Context& ctx, std::string_view prefix, std::string_view keep) {
  ASSIGN_OR_RETURN(const auto plans, cache_.Plans());
  for (const std::string& plan : plans) {
    if (plan.starts_with(prefix) && plan != keep) RETURN_IF_ERROR(cache_.Unpin(ctx, plan));
  }
  return {};
}

runtime::ReadCounts BlockNode::counts() const {
  const auto of = [&](BlockFrom from) -> const Counters& {
    return counters_[static_cast<std::size_t>(from)];
  };
  return {.local = of(BlockFrom::kCache).reads,
          .peer = of(BlockFrom::kPeer).reads,
          .store = of(BlockFrom::kStore).reads,
          .local_bytes = of(BlockFrom::kCache).bytes,
          .peer_bytes = of(BlockFrom::kPeer).bytes,
          .store_bytes = of(BlockFrom::kStore).bytes};
}

}  // namespace paddleop::volume
