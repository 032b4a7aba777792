#include "volume/cache/disk_cache.h"

#include <algorithm>
#include <set>
#include <thread>

#include "base/thread_pool.h"
#include "volume/cache/internal/cache_dir.h"
#include "volume/cache/internal/open_files.h"
#include "volume/cache/internal/ring.h"
#include "volume/cache/internal/walk.h"

namespace paddleop::volume {
namespace {

using cache::CacheDir;
using cache::OpenBlock;
using cache::PartFile;

class Directories final : public DiskCache {
 public:
  Directories(const DiskCacheOptions& options, const Logger& log, MetricsRegistry& metrics)
      : options_(options),
        log_(log),
        metrics_(metrics),
        open_(options.max_open_files),
        parts_(options.max_open_files / 4 + 1) {}

  ~Directories() override {
    upkeep_.clear();
    for (auto& dir : dirs_) Share(*dir);
  }

  void Start(const Context& ctx) {
    const cache::DirEnvironment env{
        .options = options_,
        .log = log_,
        .metrics = metrics_,
        .verified = verified_,
        .forget = [this](const std::optional<BlockId>& block) { Forget(block); },
        .in_use = [this](const BlockId& block) { return open_.Contains(block); },
        .attached = [this] { Arrange(); }};
    auto sorted = options_.directories;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.level < b.level; });
    for (const CacheDirectory& directory : sorted) {
      auto dir = std::make_unique<CacheDir>(directory, env);
      if (auto attached = dir->Attach(); !attached)
        dir->NotAttached(ctx, attached.error().message());
      dirs_.push_back(std::move(dir));
    }
    Arrange();
    if (options_.recount_interval.count() > 0) {
      for (auto& dir : dirs_) {
        upkeep_.emplace_back([this, &dir](const std::stop_token& stop) {
          SetThreadName("cache-upkeep");
          const Context upkeep = Context::Background().WithStop(stop);
          do {
            // Only its own files: those of another disk may hang.
            const auto mine = [&dir](const OpenBlock& file) {
              return file.IsOf(dir->operations());
            };
            open_.EraseIf([&](const OpenBlock& file) {
              if (!mine(file)) return false;
              if (!file.good() || file.Unlinked()) return true;
              file.NoteReads();
              return false;
            });
            open_.CloseLeft(mine);
            parts_.EraseIf([&dir](const Part& part) {
              return part.dir == dir.get() && (!dir->usable() || part.file->Unlinked());
            });
            parts_.CloseLeft([&dir](const Part& part) { return part.dir == dir.get(); });
            dir->Upkeep(upkeep);
            Share(*dir);
          } while (options_.clock->SleepFor(upkeep, options_.upkeep_interval));
        });
      }
      upkeep_.emplace_back([this](const std::stop_token& stop) {
        SetThreadName("cache-watch");
        const Context watch = Context::Background().WithStop(stop);
        do {
          for (auto& dir : dirs_) dir->Watch();
        } while (options_.clock->SleepFor(watch, options_.upkeep_interval));
      });
    }
  }

  // -- CacheStore --

  bool Read(const Context&, const BlockId& block, std::uint32_t offset,
            std::span<std::byte> out) override {
    if (auto file = OpenWhole(block)) {
      if (file->Read(offset, out)) {
        Hit(out.size());
        return true;
      }
      open_.Erase(block);
    }
    if (ReadPart(block, offset, out)) {
      Hit(out.size());
      return true;
    }
    CountMiss(out.size());
    return false;
  }

  bool Put(const Context&, const BlockId& block, std::span<const std::byte> plain) override {
    for (CacheDir* dir : InOrder(block)) {
      if (dir->answers() && dir->PutWhole(block, plain)) return true;
    }
    for (auto& dir : dirs_) dir->WantRoom();
    metrics_.refused.Increment();
    return false;
  }

  bool Contains(const BlockId& block) override {
    if (const auto file = open_.Find(block); file && file->good() && file->answers()) return true;
    return std::ranges::any_of(
        dirs_, [&](const auto& dir) { return dir->answers() && dir->HasWhole(block); });
  }

  void Remove(const BlockId& block) override {
    if (auto removed = Clear(Context::Background(), block, {}); !removed) {
      log_.Warn(
          Context::Background(), "cached block could not be removed",
          {{"block", BlockKey(options_.layout, block)}, {"error", removed.error().message()}});
    }
  }

  CacheUsage Usage() const override {
    CacheUsage usage;
    for (const auto& dir : dirs_) {
      const CacheDirectoryStatus status = dir->Status();
      usage.blocks += status.blocks + status.part_blocks;
      usage.bytes += status.bytes;
      usage.capacity += status.directory.capacity;
    }
    return usage;
  }

  // -- DiskCache --

  std::shared_ptr<BlockFile> Find(const BlockId& block) override {
    return Reading(OpenWhole(block));
  }

  std::shared_ptr<BlockFile> FindOpen(const BlockId& block) override {
    auto file = open_.Find(block);
    return file && file->good() && file->answers() ? Reading(std::move(file)) : nullptr;
  }

  bool ContainsRange(const BlockId& block, std::uint32_t offset, std::uint32_t size) override {
    if (Contains(block)) return true;
    return std::ranges::any_of(
        PartsOf(block), [&](const auto& part) { return part->file->Contains(offset, size); });
  }

  std::uint64_t RangeBytes(const BlockId& block) override {
    std::uint64_t most = 0;
    if (Contains(block)) return 0;
    for (const auto& part : PartsOf(block)) most = std::max(most, part->file->Present());
    return most;
  }

  void CountHit(std::uint64_t bytes) override {
    ++traffic_.hits;
    traffic_.hit_bytes += bytes;
  }

  void CountMiss(std::uint64_t bytes) override {
    metrics_.misses.Increment();
    metrics_.miss_bytes.Increment(static_cast<double>(bytes));
    ++traffic_.misses;
    traffic_.miss_bytes += bytes;
  }

  Result<void> Store(const Context& ctx, const BlockId& block, std::span<const std::byte> plain,
                     std::string_view plan) override {
    return Keep(ctx, block, plan,
                cache::ChargeOf(block.length, options_.checksum != ChecksumLevel::kNone),
                [&](CacheDir& dir) { return dir.PutWhole(block, plain); });
  }

  Result<void> StoreRange(const Context& ctx, const BlockId& block, std::uint32_t offset,
                          std::span<const std::byte> data, std::string_view plan) override {
    if (Contains(block)) {
      if (plan.empty()) return {};
      ASSIGN_OR_RETURN(const bool pinned, Pin(block, plan));
      if (pinned) return {};
    }
    return Keep(ctx, block, plan, data.size() + 3 * std::uint64_t{cache::kPageBytes},
                [&](CacheDir& dir) { return dir.PutRange(block, offset, data); });
  }

  Result<bool> Pin(const BlockId& block, std::string_view plan) override {
    RETURN_IF_ERROR(ValidatePlan(plan));
    for (CacheDir* dir : InOrder(block)) {
      ASSIGN_OR_RETURN(const bool pinned, dir->Pin(block, plan));
      if (pinned) return true;
    }
    return false;
  }

  Result<void> Trim(const BlockId& block, std::span<const BlockFile::Span> keep,
                    std::string_view family) override {
    for (const auto& dir : dirs_) RETURN_IF_ERROR(dir->Trim(block, keep, family));
    parts_.Erase(block);  // it has the old table of pages
    return {};
  }

  Result<Removed> Unpin(const Context& ctx, std::string_view plan) override {
    RETURN_IF_ERROR(ValidatePlan(plan));
    return InAll([&](CacheDir& dir) { return dir.Unpin(ctx, plan); });
  }

  Result<Removed> Clear(const Context&, const BlockId& block, std::string_view plan) override {
    Forget(block);
    verified_.Forget(block);
    return InAll([&](CacheDir& dir) { return dir.Clear(block, plan); });
  }

  Result<Removed> ClearAll(const Context& ctx) override {
    return InAll([&](CacheDir& dir) { return dir.ClearAll(ctx); });
  }

  Result<std::vector<std::string>> Plans() override {
    std::set<std::string> plans;
    for (const auto& dir : dirs_) {
      for (std::string& plan : dir->Plans()) plans.insert(std::move(plan));
    }
    return std::vector<std::string>(plans.begin(), plans.end());
  }

  std::vector<CacheDirectoryStatus> Status() override {
    std::vector<CacheDirectoryStatus> all;
    for (const auto& dir : dirs_) {
      const auto counters = dir->counters();
      // Otherwise upkeep counts; whoever asks may have others waiting.
      const bool alone = options_.recount_interval.count() == 0;
      if (alone && dir->usable() && counters && counters->needs_walk()) {
        if (auto counted = dir->Recount(Context::Background()); !counted) {
          log_.Warn(Context::Background(), "cache directory cannot be counted",
                    {{"path", dir->directory().path}, {"error", counted.error().message()}});
        }
      }
      all.push_back(dir->Status());
    }
    return all;
  }

  CacheTraffic Traffic() const override {
    CacheTraffic traffic{.hits = traffic_.hits,
                         .hit_bytes = traffic_.hit_bytes,
                         .misses = traffic_.misses,
                         .miss_bytes = traffic_.miss_bytes};
    const auto add = [&](const cache::CounterPage& page) {
      traffic.hits += page.hits;
      traffic.hit_bytes += page.hit_bytes;
      traffic.misses += page.misses;
      traffic.miss_bytes += page.miss_bytes;
      traffic.corrupt += page.corrupt;
      traffic.evicted += page.evicted;
    };
    for (const auto& dir : dirs_) {
      if (const auto* counters = dir->counters()) add(*counters->operator->());
    }
    return traffic;
  }

  Result<void> ForEachBlock(const Context& ctx, const BlockFn& fn) override {
    for (const auto& dir : dirs_) RETURN_IF_ERROR(dir->ForEachBlock(ctx, fn));
    return {};
  }

  Result<void> Recount(const Context& ctx) override {
    for (const auto& dir : dirs_) RETURN_IF_ERROR(dir->Recount(ctx));
    return {};
  }

 private:
  // Directories of one level, and the ring that spreads blocks over those whose ids are known.
  struct Level {
    std::vector<CacheDir*> dirs;  // those of the ring first
    std::optional<cache::Ring> ring;
  };
  using Levels = std::vector<Level>;
  // Ranges of a block, and where they lie.
  struct Part {
    CacheDir* dir;
    std::shared_ptr<PartFile> file;
  };

  // Called when a directory was attached.
  void Arrange() EXCLUDES(levels_mutex_) {
    MutexLock lock(levels_mutex_);
    Levels levels;
    for (const auto& dir : dirs_) {
      if (levels.empty() ||
          levels.back().dirs.front()->directory().level != dir->directory().level) {
        levels.emplace_back();
      }
      levels.back().dirs.push_back(dir.get());
    }
    for (Level& level : levels) {
      std::stable_partition(level.dirs.begin(), level.dirs.end(),
                            [](const CacheDir* dir) { return !dir->id().empty(); });
      std::vector<std::string> ids;
      for (const CacheDir* dir : level.dirs) {
        if (!dir->id().empty()) ids.push_back(dir->id());
      }
      if (ids.size() > 1) level.ring.emplace(ids);
    }
    levels_ = std::make_shared<const Levels>(std::move(levels));
  }

  // Where a block belongs: levels in order; within a level the directory that the official client
  // would choose, then the others, so that one that is out is stood in for.
  std::vector<CacheDir*> InOrder(const BlockId& block) const EXCLUDES(levels_mutex_) {
    if (dirs_.size() == 1) return {dirs_[0].get()};
    std::shared_ptr<const Levels> levels;
    {
      MutexLock lock(levels_mutex_);
      levels = levels_;
    }
    std::vector<CacheDir*> order;
    order.reserve(dirs_.size());
    for (const Level& level : *levels) {
      const std::size_t first =
          level.ring ? level.ring->Choose(BlockKey(options_.layout, block)) : 0;
      for (std::size_t i = 0; i < level.dirs.size(); ++i)
        order.push_back(level.dirs[(first + i) % level.dirs.size()]);
    }
    return order;
  }

  // With the time that its reader has it.
  static std::shared_ptr<BlockFile> Reading(std::shared_ptr<OpenBlock> file) {
    struct Stamped {
      std::shared_ptr<OpenBlock> file;
      cache::Operations::Stamp stamp;
    };
    if (!file) return nullptr;
    OpenBlock* const found = file.get();
    auto stamp = found->BeginRead();
    return {std::make_shared<Stamped>(std::move(file), std::move(stamp)), found};
  }

  std::shared_ptr<OpenBlock> OpenWhole(const BlockId& block) {
    // One that does not answer stays open for later; others may have the block, too.
    if (auto file = open_.Find(block)) {
      if (!file->good()) {
        open_.Erase(block);
      } else if (file->answers()) {
        return file;
      }
    }
    for (CacheDir* dir : InOrder(block)) {
      if (!dir->answers()) continue;
      if (auto file = dir->OpenWhole(block)) {
        open_.Insert(block, file);
        return file;
      }
    }
    return nullptr;
  }

  std::vector<std::shared_ptr<Part>> PartsOf(const BlockId& block) {
    std::vector<std::shared_ptr<Part>> parts;
    auto known = parts_.Find(block);
    if (known && !known->dir->answers()) known = nullptr;
    // One that was evicted may have been made anew, with other ranges.
    if (known && (!known->dir->usable() || known->file->Unlinked())) {
      parts_.Erase(block);
      known = nullptr;
    }
    if (known) parts.push_back(known);
    for (CacheDir* dir : InOrder(block)) {
      if ((known && known->dir == dir) || !dir->answers()) continue;
      if (auto file = dir->OpenPart(block)) {
        parts.push_back(std::make_shared<Part>(dir, std::move(file)));
        parts_.Insert(block, parts.back());
      }
    }
    return parts;
  }

  bool ReadPart(const BlockId& block, std::uint32_t offset, std::span<std::byte> out) {
    for (const auto& part : PartsOf(block)) {
      const auto stamp = part->dir->operations().Begin("a read");
      switch (part->file->Read(offset, out)) {
        case PartFile::Outcome::kFound:
          return true;
        case PartFile::Outcome::kMissing:
          break;
        case PartFile::Outcome::kCorrupt:
          part->dir->Damaged(block, true, "a page's checksum differs");
          break;
        case PartFile::Outcome::kError:
          parts_.Erase(block);
          part->dir->Unreadable("read", block, true, part->file->last_error());
          break;
      }
    }
    return false;
  }

  template <class PutFn>
  Result<void> Keep(const Context& ctx, const BlockId& block, std::string_view plan,
                    std::uint64_t bytes, PutFn put) {
    if (!plan.empty()) RETURN_IF_ERROR(ValidatePlan(plan));
    std::string reasons;
    Code why = Code::kNoSpace;
    // First where there is room, then where room can be made.
    for (const bool make_room : {false, true}) {
      for (CacheDir* dir : InOrder(block)) {
        RETURN_IF_ERROR(ctx.Check());
        const auto room = make_room ? dir->MakeRoom(ctx, bytes) : std::nullopt;
        if (make_room && !room) continue;
        if (auto kept = put(*dir); !kept) {
          const Code code = kept.error().code();
          if (code == Code::kAlreadyExists && why == Code::kNoSpace) why = code;
          if (code != Code::kAlreadyExists && code != Code::kNoSpace) why = Code::kUnavailable;
          if (!make_room) reasons += (reasons.empty() ? "" : "; ") + kept.error().message();
          continue;
        }
        if (plan.empty()) return {};
        ASSIGN_OR_RETURN(const bool pinned, dir->Pin(block, plan));
        if (pinned) return {};
        why = Code::kUnavailable;  // it was kept, and somebody took it away
        if (!make_room)
          reasons += (reasons.empty() ? "" : "; ") + dir->directory().path + " lost it";
      }
    }
    metrics_.refused.Increment();
    return Fail(why, "the cache has no room for block {}: {}", BlockKey(options_.layout, block),
                reasons.empty() ? "no directory is in use" : reasons);
  }

  template <class Fn>
  Result<Removed> InAll(Fn fn) {
    Removed total;
    for (auto& dir : dirs_) {
      ASSIGN_OR_RETURN(const Removed removed, fn(*dir));
      total.blocks += removed.blocks;
      total.bytes += removed.bytes;
    }
    return total;
  }

  void Forget(const std::optional<BlockId>& block) {
    if (block) {
      open_.Erase(*block);
      parts_.Erase(*block);
      return;
    }
    open_.EraseIf([](const OpenBlock&) { return true; });
    parts_.EraseIf([](const Part&) { return true; });
  }

  // What readers found, into the counters that all processes share: a page of a file, and who
  // writes to it may wait for the disk.
  void Share(CacheDir& dir) {
    auto* const counters = dir.usable() && dir.answers() ? dir.counters() : nullptr;
    if (counters == nullptr) return;
    auto& page = *counters->operator->();
    page.hits += traffic_.hits.exchange(0);
    page.hit_bytes += traffic_.hit_bytes.exchange(0);
    page.misses += traffic_.misses.exchange(0);
    page.miss_bytes += traffic_.miss_bytes.exchange(0);
  }

  void Hit(std::uint64_t bytes) {
    metrics_.hits.Increment();
    metrics_.hit_bytes.Increment(static_cast<double>(bytes));
    CountHit(bytes);
  }

  const DiskCacheOptions options_;
  const Logger& log_;
  cache::Metrics metrics_;
  cache::VerifiedTable verified_;
  cache::OpenFiles<OpenBlock> open_;
  cache::OpenFiles<Part> parts_;
  std::vector<std::unique_ptr<CacheDir>> dirs_;  // by level
  struct {
    std::atomic<std::uint64_t> hits, hit_bytes, misses, miss_bytes;
  } traffic_{};  // not shared yet
  mutable Mutex levels_mutex_;
  std::shared_ptr<const Levels> levels_ GUARDED_BY(levels_mutex_);
  // Joined first of all when the cache goes. With a disk that hangs this waits for it, since nobody
  // can end a thread that is in a system call; ending the process is up to whoever runs it: a guard
  // like the mount's, or a second signal.
  std::vector<std::jthread> upkeep_;
};

}  // namespace

Result<void> DiskCacheOptions::Validate() const {
  if (uuid.size() != 36 || uuid.find('/') != std::string::npos)
    return Fail(Code::kInvalid, "\"{}\" is not the UUID of a volume", uuid);
  return CacheOptions{.directories = directories}.Validate();
}

Result<std::unique_ptr<DiskCache>> DiskCache::Open(const Context& ctx,
                                                   const DiskCacheOptions& options,
                                                   const Logger& log, MetricsRegistry& metrics) {
  RETURN_IF_ERROR(options.Validate());
  auto cache = std::make_unique<Directories>(options, log, metrics);
  cache->Start(ctx);
  return cache;
}

}  // namespace paddleop::volume
