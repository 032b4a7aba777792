#include "volume/vfs/internal/async_blocks.h"

#include <algorithm>
#include <utility>

#include "base/backoff.h"
#include "base/clock.h"
#include "volume/vfs/internal/disk_watch.h"
#include "volume/vfs/metrics.h"

namespace paddleop::volume {
namespace {

// After so many blocks in vain only ranges are fetched.
constexpr int kMostInVain = 4;

// When none has been read or fetched for so long, the blocks in memory that are on the disk, too,
// leave it.
constexpr std::chrono::milliseconds kRecentIdle{50};

// Threads that put blocks on the disk, and blocks that wait for one. Together, and with those that
// took their places when all hung, they have no more than half of the buffers.
constexpr std::size_t kMostKeepThreads = 4;
constexpr std::size_t kKeepCrews = 2;

std::size_t KeepThreads(const BlockStoreOptions& options) {
  const std::uint64_t blocks = options.buffer_bytes / 2 / options.layout.block_size;
  return std::clamp<std::size_t>(blocks / 2 / kKeepCrews, 1, kMostKeepThreads);
}

// A range saves something, and a block was worth fetching, at this part of a whole one.
bool IsSmallPart(std::uint64_t bytes, const BlockId& block) { return bytes * 4 <= block.length; }

}  // namespace

AsyncBlocks::AsyncBlocks(BlockStore& blocks, DiskCache* disk, MetricsRegistry& metrics,
                         const AsyncBlocksOptions& options, OnMiss on_miss)
    : blocks_(blocks),
      disk_(disk),
      options_(options),
      on_miss_(std::move(on_miss)),
      ledger_(metrics),
      fetch_errors_(metrics.AddCounter(kFetchErrors, kFetchErrorsHelp)),
      keeps_(disk != nullptr),
      reader_(disk == nullptr ? nullptr
                              : std::make_unique<DiskReader>(*disk, metrics, options.disk)),
      fetch_pool_(
          {.name = "data-fetch", .threads = options.fetch_threads, .queue_limit = 1U << 16}),
      keep_pool_({.name = "data-keep",
                  .threads = KeepThreads(blocks.options()),
                  .queue_limit = KeepThreads(blocks.options()),
                  .patience = options.disk.patience,
                  .most_crews = kKeepCrews}) {
  int i = 0;
  for (const char* tier : {"memory", "disk", "store"}) {
    reads_[i] = &metrics.AddCounter(kDataSetReads, kDataSetReadsHelp, {{"tier", tier}});
    bytes_[i++] = &metrics.AddCounter(kDataSetBytes, kDataSetBytesHelp, {{"tier", tier}});
  }
  watch_ = std::jthread([this] {
    SetThreadName("data-waiters");
    WatchTheTime();
  });
}

AsyncBlocks::~AsyncBlocks() { Stop(); }

void AsyncBlocks::Stop() {
  stop_.request_stop();
  if (reader_) reader_->Stop();
  fetch_pool_.Stop();
  keep_pool_.Stop();
}

Context AsyncBlocks::Bounded() const {
  return Context::Background().WithStop(stop_.get_token()).WithTimeout(options_.timeout);
}

void AsyncBlocks::Run(ThreadPool::Task task) {
  auto shared = std::make_shared<ThreadPool::Task>(std::move(task));
  if (!fetch_pool_.TrySubmit([shared] { (*shared)(); })) (*shared)();
}

AsyncBlocks::Content AsyncBlocks::FindInMemory(const BlockId& block, Waiter* waiter, bool* queued) {
  MutexLock lock(mutex_);
  if (const auto found = pending_.find(Whole(block)); found != pending_.end()) {
    Pending& pending = *found->second;
    if (!pending.content) {
      Wait(pending, std::move(*waiter));
      *queued = true;
      return nullptr;
    }
    pending.read += waiter->size;
    return pending.content;
  }
  const auto found = recent_places_.find(block);
  if (found == recent_places_.end()) return nullptr;
  recent_touched_ = Context::Clock::now();
  recent_.splice(recent_.begin(), recent_, found->second);
  found->second->read += waiter->size;
  return found->second->content;
}

void AsyncBlocks::Answer(Tier tier, Waiter& waiter, const Content& content) {
  Count(tier, waiter.size);
  waiter.done(content->bytes().subspan(waiter.offset, waiter.size));
}

void AsyncBlocks::Count(Tier tier, std::uint32_t size) {
  reads_[tier]->Increment();
  bytes_[tier]->Increment(size);
}

void AsyncBlocks::Read(const BlockId& block, std::uint32_t offset, std::uint32_t size,
                       std::uint64_t hint, Done done) {
  ledger_.Read(block);
  Waiter waiter{offset, size, std::move(done)};
  bool queued = false;
  if (const Content content = FindInMemory(block, &waiter, &queued))
    return Answer(kMemory, waiter, content);
  if (queued) return;
  if (!reader_) return StartFetch(block, hint, std::move(waiter));
  reader_->Read(block, offset, size,
                [this, block, hint, waiter = std::move(waiter)](auto bytes) mutable {
                  if (!bytes && stop_.stop_requested())
                    return waiter.done(Fail(Code::kCancelled, "the mount is ending"));
                  if (!bytes) return StartFetch(block, hint, std::move(waiter));
                  Count(kDisk, waiter.size);
                  waiter.done(*bytes);
                });
}

AsyncBlocks::Part AsyncBlocks::Choose(const BlockId& block, const Waiter& waiter) {
  const Part range{.block = block, .offset = waiter.offset, .size = waiter.size};
  if (keeps_ || in_vain_ < kMostInVain || !IsSmallPart(waiter.size, block)) return Whole(block);
  if (!blocks_.ranges_are_cheap()) return Whole(block);
  auto known = std::ranges::find(ranges_, block, &Ranges::block);
  if (known == ranges_.end()) {
    const std::uint64_t room = options_.recent_bytes / blocks_.options().layout.block_size;
    if (ranges_.size() > room) ranges_.pop_back();
    known = ranges_.insert(ranges_.begin(), {block, 0});
  }
  ranges_.splice(ranges_.begin(), ranges_, known);
  known->read += waiter.size;
  if (IsSmallPart(known->read, block)) return range;
  // Memory would have held it for all these reads: whole blocks pay again.
  ranges_.clear();
  in_vain_ = 0;
  return Whole(block);
}

void AsyncBlocks::StartFetch(const BlockId& block, std::uint64_t hint, Waiter waiter) {
  bool queued = false;
  if (const Content content = FindInMemory(block, &waiter, &queued))
    return Answer(kMemory, waiter, content);
  if (queued) return;
  Part part;
  {
    MutexLock lock(mutex_);
    part = Choose(block, waiter);
    auto& pending = pending_[part];
    const bool fresh = !pending;
    if (fresh) pending = std::make_shared<Pending>();
    if (pending->content) {
      const Content content = pending->content;
      pending->read += waiter.size;
      lock.unlock();
      return Answer(kMemory, waiter, content);
    }
    Wait(*pending, std::move(waiter));
    if (!fresh) return;
  }
  if (part.whole()) ledger_.Missed();
  if (!fetch_pool_.TrySubmit([this, part] { Fetch(part); })) {
    Failed(part, Status(Code::kCancelled, "the mount is ending"));
    return;
  }
  // Where whole blocks do not pay, those that follow do even less.
  if (on_miss_ && part.whole()) on_miss_(block, hint);
}

void AsyncBlocks::Prefetch(const BlockId& block) {
  // What readers wait for goes first.
  if (fetch_pool_.queued() > options_.fetch_threads) return;
  if (!reader_) return StartPrefetch(block);
  // Looking into the cache directory may wait for a disk. A full queue has better things to do.
  reader_->Run([this, block] {
    if (!disk_->Contains(block)) StartPrefetch(block);
  });
}

void AsyncBlocks::StartPrefetch(const BlockId& block) {
  {
    MutexLock lock(mutex_);
    if (recent_places_.contains(block)) return;
    auto& pending = pending_[Whole(block)];
    if (pending) return;
    pending = std::make_shared<Pending>();
    pending->ahead = true;
  }
  ledger_.Started(block);
  if (!fetch_pool_.TrySubmit([this, block] { Fetch(Whole(block)); }))
    Failed(Whole(block), Status(Code::kCancelled, "the mount is ending"));
}

void AsyncBlocks::Wait(Pending& pending, Waiter waiter) {
  waiter.arrived = Context::Clock::now();
  LookAt(waiter.arrived + options_.timeout);
  pending.waiters.push_back(std::move(waiter));
}

void AsyncBlocks::LookAt(Context::TimePoint time) {
  if (time >= next_look_) return;
  next_look_ = Context::TimePoint::min();
  look_earlier_.notify_one();
}

void AsyncBlocks::WatchTheTime() {
  MutexLock lock(mutex_);
  while (!stop_.stop_requested()) {
    const auto now = Context::Clock::now();
    auto next = Context::TimePoint::max();
    std::vector<std::pair<Waiter, Status>> late;
    for (auto& [part, pending] : pending_) {
      auto& waiters = pending->waiters;
      std::size_t count = 0;
      while (count < waiters.size() && waiters[count].arrived + options_.timeout <= now)
        late.emplace_back(std::move(waiters[count++]), pending->error);
      waiters.erase(waiters.begin(), waiters.begin() + static_cast<std::ptrdiff_t>(count));
      if (!waiters.empty()) next = std::min(next, waiters.front().arrived + options_.timeout);
    }
    next = std::min(next, LetGoOfRecent(now));
    if (!late.empty()) {
      lock.unlock();
      for (auto& [waiter, error] : late) waiter.done(std::unexpected(error));
      late.clear();
      lock.lock();
      continue;
    }
    next_look_ = next;
    const auto earlier = [this]()
                             REQUIRES(mutex_) { return next_look_ == Context::TimePoint::min(); };
    if (next == Context::TimePoint::max()) {
      look_earlier_.wait(lock, stop_.get_token(), earlier);
    } else {
      look_earlier_.wait_until(lock, stop_.get_token(), next, earlier);
    }
    next_look_ = Context::TimePoint::min();
  }
}

Context::TimePoint AsyncBlocks::LetGoOfRecent(Context::TimePoint now) {
  if (std::ranges::none_of(recent_, &Recent::kept)) return Context::TimePoint::max();
  // Who waits for a block goes on with those in memory.
  const Context::TimePoint idle = (pending_.empty() ? recent_touched_ : now) + kRecentIdle;
  if (now < idle) return idle;
  for (auto it = recent_.begin(); it != recent_.end();) {
    if (!it->kept) {
      ++it;
      continue;
    }
    recent_used_ -= it->block.length;
    recent_places_.erase(it->block);
    it = recent_.erase(it);
  }
  return Context::TimePoint::max();
}

std::optional<Context::TimePoint> AsyncBlocks::FetchUntil(const Part& part) {
  MutexLock lock(mutex_);
  const auto found = pending_.find(part);
  if (found == pending_.end()) return std::nullopt;
  const Pending& pending = *found->second;
  // A reader's time runs from its arrival, also while the block waits for its turn.
  if (!pending.waiters.empty()) return pending.waiters.back().arrived + options_.timeout;
  if (pending.ahead) return Context::Clock::now() + options_.timeout;
  pending_.erase(found);
  return std::nullopt;
}

Result<void> AsyncBlocks::FetchOnce(const Context& ctx, const Part& part) {
  if (part.whole()) {
    ASSIGN_OR_RETURN(Content content, blocks_.FetchBlock(ctx, part.block));
    Deliver(part.block, std::move(content));
    return {};
  }
  // No block is put there any more that could tell.
  if (reader_) reader_->Run([this] { LookAtDisk(); });
  std::vector<std::byte> bytes(part.size);
  RETURN_IF_ERROR(blocks_.FetchPart(ctx, part.block, part.offset, bytes));
  DeliverRange(part, bytes);
  return {};
}

void AsyncBlocks::Fetch(const Part& part) {
  constexpr Clock::Duration kFirstPause = std::chrono::milliseconds(200);
  const Context running = Context::Background().WithStop(stop_.get_token());
  Backoff backoff({.initial = kFirstPause, .maximum = std::chrono::seconds(5)});
  while (const auto until = FetchUntil(part)) {
    const Context ctx = running.WithDeadline(*until);
    auto fetched = FetchOnce(ctx, part);
    if (fetched) return;
    fetch_errors_.Increment();
    if (!Failed(part, fetched.error())) return;
    // Readers wait for a store that is away until their time is up, and the store is asked once
    // more before that.
    const Clock::Duration pause = std::min<Clock::Duration>(backoff.Take(), ctx.Remaining() / 2);
    Clock::System().SleepFor(running, std::max(pause, kFirstPause));
  }
}

bool AsyncBlocks::Failed(const Part& part, const Status& error) {
  // The deadline was that of who waited longest when the attempt began.
  const bool may_pass = IsRetryable(error) || error.code() == Code::kDeadline;
  const bool again = may_pass && !stop_.stop_requested();
  std::vector<Waiter> sent_away;
  bool wanted = false;
  {
    MutexLock lock(mutex_);
    const auto found = pending_.find(part);
    if (found == pending_.end()) return false;
    Pending& pending = *found->second;
    pending.ahead = false;
    pending.error = error;
    std::vector<Waiter> waiters;
    for (Waiter& waiter : pending.waiters) {
      const bool tired = options_.retries > 0 && ++waiter.failures > options_.retries;
      (again && !tired ? waiters : sent_away).push_back(std::move(waiter));
    }
    wanted = !waiters.empty();
    pending.waiters = std::move(waiters);
    if (!wanted) pending_.erase(found);
  }
  if (!wanted && part.whole()) ledger_.Lost(part.block);
  for (Waiter& waiter : sent_away) waiter.done(std::unexpected(error));
  return wanted;
}

std::uint64_t AsyncBlocks::ahead_limit() const {
  if (keeps_) return UINT64_MAX / blocks_.options().layout.block_size;
  // One is being read.
  const std::uint64_t room = options_.recent_bytes / blocks_.options().layout.block_size;
  return std::min<std::uint64_t>(ledger_.window(), room > 0 ? room - 1 : 0);
}

bool AsyncBlocks::Keep(const BlockId& block, const Content& content) {
  // Also when the mount is ending: what was fetched is not fetched again by the next one.
  const Context ctx = Context::Background().WithTimeout(options_.timeout);
  const bool kept = disk_->Put(ctx, block, content->bytes());
  if (kept) {
    keeps_ = true;
  } else {
    LookAtDisk();
  }
  return kept;
}

void AsyncBlocks::LookAtDisk() {
  const auto now = Context::Clock::now();
  auto next = look_again_.load();
  if (now < next || !look_again_.compare_exchange_strong(next, now + std::chrono::seconds(1)))
    return;
  keeps_ = DiskWatch::KeepsNow(*disk_);
}

std::vector<BlockId> AsyncBlocks::Remember(Recent recent) {
  std::vector<BlockId> lost;
  if (const auto found = recent_places_.find(recent.block); found != recent_places_.end()) {
    recent_used_ -= recent.block.length;
    recent_.erase(found->second);
  }
  recent_used_ += recent.block.length;
  recent_touched_ = Context::Clock::now();
  if (recent.kept) LookAt(recent_touched_ + kRecentIdle);
  recent_.push_front(std::move(recent));
  recent_places_[recent_.front().block] = recent_.begin();
  while (recent_used_ > options_.recent_bytes && recent_.size() > 1) {
    const Recent& last = recent_.back();
    recent_used_ -= last.block.length;
    if (!last.kept) {
      lost.push_back(last.block);
      in_vain_ = IsSmallPart(last.read, last.block) ? std::min(in_vain_ + 1, kMostInVain) : 0;
    }
    recent_places_.erase(last.block);
    recent_.pop_back();
  }
  return lost;
}

void AsyncBlocks::Deliver(const BlockId& block, Content content) {
  std::vector<Waiter> waiters;
  {
    MutexLock lock(mutex_);
    Pending& pending = *pending_.at(Whole(block));
    pending.content = content;
    waiters.swap(pending.waiters);
    for (const Waiter& waiter : waiters) pending.read += waiter.size;
  }
  for (Waiter& waiter : waiters) Answer(kStore, waiter, content);
  waiters.clear();
  KeepLater(block, std::move(content));
}

void AsyncBlocks::KeepLater(const BlockId& block, Content content) {
  if (disk_ == nullptr) return Settle(block, std::move(content), false, false);
  const auto task = [this, block, content] {
    const bool kept = Keep(block, content);
    stuck_ = false;
    Settle(block, content, kept, /*may_look=*/true);
  };
  // A slow disk slows fetching; one that hangs is only offered what it takes.
  const Context patience = Context::Background().WithTimeout(options_.disk.patience);
  const bool queued = stuck_ ? keep_pool_.TrySubmit(task) : keep_pool_.Submit(patience, task);
  if (queued) return;
  stuck_ = true;
  keeps_ = false;
  Settle(block, std::move(content), false, false);
}

void AsyncBlocks::Settle(const BlockId& block, Content content, bool kept, bool may_look) {
  std::vector<BlockId> lost;
  {
    MutexLock lock(mutex_);
    const auto pending = pending_.extract(Whole(block));
    // Without a disk the memory is all there is.
    lost = Remember({block, std::move(content), kept, pending.mapped()->read});
  }
  for (const BlockId& gone : lost) {
    if (!may_look || !disk_->Contains(gone)) ledger_.Lost(gone);
  }
}

void AsyncBlocks::DeliverRange(const Part& part, std::span<const std::byte> bytes) {
  std::vector<Waiter> waiters;
  {
    MutexLock lock(mutex_);
    const auto found = pending_.find(part);
    waiters.swap(found->second->waiters);
    pending_.erase(found);
  }
  for (Waiter& waiter : waiters) {
    Count(kStore, waiter.size);
    waiter.done(bytes);
  }
}

}  // namespace paddleop::volume
