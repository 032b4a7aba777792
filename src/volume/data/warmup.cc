#include "volume/data/warmup.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "base/mutex.h"
#include "base/scheduling.h"
#include "base/thread_pool.h"

namespace paddleop::volume::data {
namespace {

// Ranges this close are cheaper to fetch in one request.
constexpr std::uint32_t kGap = 128U << 10;
// With directories that are all out of use; the cache tries them again every two seconds.
constexpr std::chrono::seconds kPatience(15);
constexpr std::chrono::milliseconds kPause(100);

// One run of a plan, by several threads.
class Runner {
 public:
  Runner(const Context& ctx, Volume& volume, const WarmupPlan& plan, const WarmupOptions& options)
      : ctx_(ctx),
        volume_(volume),
        cache_(*volume.disk_cache()),
        plan_(plan),
        options_(options),
        left_blocks_(plan.file_blocks) {
    report_.progress.blocks = plan.blocks.size();
    report_.progress.bytes = plan.cache_bytes;
    report_.progress.files = plan.files;
    report_.progress.done_files = static_cast<std::uint64_t>(std::ranges::count(left_blocks_, 0U));
  }

  WarmupReport Run() {
    {
      const std::size_t threads = std::clamp<std::size_t>(options_.threads, 1, 256);
      std::vector<std::jthread> workers;
      MutexLock lock(mutex_);
      running_ = std::min(threads, std::max<std::size_t>(1, plan_.blocks.size()));
      workers.reserve(running_);
      for (std::size_t i = 0; i < running_; ++i) {
        workers.emplace_back([this] {
          SetThreadName("warmup");
          SetThreadBatch();
          Work();
        });
      }
      while (running_ > 0) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        finished_.wait_until(lock, until, [&]() REQUIRES(mutex_) { return running_ == 0; });
        if (running_ > 0 && options_.progress) {
          const WarmupProgress progress = report_.progress;
          lock.unlock();
          options_.progress(progress);
          lock.lock();
        }
      }
    }
    if (options_.progress) options_.progress(report_.progress);
    return std::move(report_);
  }

 private:
  struct Done {
    bool cached = false;
    std::uint64_t fetched = 0;
  };

  void Work() {
    for (;;) {
      const std::size_t at = next_.fetch_add(1);
      if (at >= plan_.blocks.size() || ctx_.Stopped()) break;
      const PlannedBlock& planned = plan_.blocks[at];
      auto done = Bring(planned);
      MutexLock lock(mutex_);
      if (!done) {
        if (done.error().code() == Code::kNoSpace) full_ = true;
        ++report_.progress.failed_blocks;
        report_.failures.push_back({planned.block, std::move(done).error()});
        continue;
      }
      ++report_.progress.done_blocks;
      for (const std::uint32_t file : planned.files) {
        if (--left_blocks_[file] == 0) ++report_.progress.done_files;
      }
      report_.progress.done_bytes += planned.planned;
      report_.progress.fetched_bytes += done->fetched;
      if (done->cached) {
        ++report_.progress.cached_blocks;
        report_.progress.cached_bytes += planned.planned;
      }
    }
    MutexLock lock(mutex_);
    --running_;
    finished_.notify_all();
  }

  Result<Done> Bring(const PlannedBlock& planned) {
    RETURN_IF_ERROR(ctx_.Check());
    ASSIGN_OR_RETURN(const bool here, PinIfHere(planned));
    if (here) return Done{.cached = true};
    // Not asked again for each of maybe a million blocks.
    if (full_) return Fail(Code::kNoSpace, "not fetched: the cache is full of pinned blocks");
    if (lost_) return Fail(Code::kUnavailable, "not fetched: no cache directory works");
    return planned.whole ? BringWhole(planned) : BringRanges(planned);
  }

  // A disk that fails for a moment is not the end of a warm-up.
  template <class StoreFn>
  Result<void> StorePatiently(StoreFn store) {
    for (const Context patience = ctx_.WithTimeout(kPatience);;) {
      Result<void> stored = store();
      if (stored || stored.error().code() != Code::kUnavailable) return stored;
      if (lost_ || !Clock::System().SleepFor(patience, kPause)) {
        lost_ = true;
        return stored;
      }
    }
  }

  Result<bool> PinIfHere(const PlannedBlock& planned) {
    const bool here = planned.whole ? cache_.Contains(planned.block)
                                    : std::ranges::all_of(planned.ranges, [&](const auto& range) {
                                        return cache_.ContainsRange(planned.block, range.begin,
                                                                    range.end - range.begin);
                                      });
    if (!here || options_.pin.empty()) return here;
    return cache_.Pin(planned.block, options_.pin);
  }

  Result<Done> BringWhole(const PlannedBlock& planned) {
    Result<void> stored;
    RETURN_IF_ERROR(volume_.blocks().FetchBlock(ctx_, planned.block, [&](auto plain) {
      stored =
          StorePatiently([&] { return cache_.Store(ctx_, planned.block, plain, options_.pin); });
    }));
    RETURN_IF_ERROR(stored);
    return Done{.fetched = planned.block.length};
  }

  Result<Done> BringRanges(const PlannedBlock& planned) {
    std::vector<BlockRange> requests;
    std::uint64_t bytes = 0;
    for (const BlockRange& range : planned.ranges) {
      if (!requests.empty() && range.begin - requests.back().end < kGap) {
        bytes += range.end - requests.back().end;
        requests.back().end = range.end;
      } else {
        bytes += range.end - range.begin;
        requests.push_back(range);
      }
    }
    Result<void> stored;
    const auto store = [&](std::span<const std::byte> from, std::uint32_t at) {
      for (const BlockRange& range : planned.ranges) {
        if (!stored || range.begin < at || range.end > at + from.size()) continue;
        stored = StorePatiently([&] {
          return cache_.StoreRange(ctx_, planned.block, range.begin,
                                   from.subspan(range.begin - at, range.end - range.begin),
                                   options_.pin);
        });
      }
    };
    const bool few = bytes * 2 <= planned.block.length;
    if (!few || !volume_.blocks().ranges_are_cheap() || volume_.blocks().options().peer) {
      // One request, which a peer that has the block can answer.
      RETURN_IF_ERROR(
          volume_.blocks().FetchBlock(ctx_, planned.block, [&](auto plain) { store(plain, 0); }));
      RETURN_IF_ERROR(stored);
      return Done{.fetched = planned.block.length};
    }
    for (const BlockRange& request : requests) {
      ASSIGN_OR_RETURN(auto lease,
                       volume_.blocks().budget().Acquire(ctx_, request.end - request.begin));
      std::vector<std::byte> buffer(request.end - request.begin);
      RETURN_IF_ERROR(volume_.blocks().FetchRange(ctx_, planned.block, request.begin, buffer));
      store(buffer, request.begin);
      RETURN_IF_ERROR(stored);
    }
    return Done{.fetched = bytes};
  }

  const Context& ctx_;
  Volume& volume_;
  DiskCache& cache_;
  const WarmupPlan& plan_;
  const WarmupOptions& options_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> full_ = false;
  std::atomic<bool> lost_ = false;  // all directories
  Mutex mutex_;
  CondVar finished_;
  std::size_t running_ GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> left_blocks_;  // of each file; guarded by mutex_ while workers run
  WarmupReport report_;                     // guarded by mutex_ while workers run
};

Result<void> NeedsCache(Volume& volume) {
  if (volume.disk_cache() != nullptr) return {};
  return Fail(Code::kInvalid, "there is no cache directory; give --cache-dir");
}

std::string Normalize(std::string_view path) {
  std::string clean;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view name = path.substr(at, end - at);
    if (!name.empty() && name != ".") clean += (clean.empty() ? "" : "/") + std::string(name);
    at = end + 1;
  }
  return clean;
}

// The deepest directory that all paths lie in. A single path's parent, unless it is a directory.
std::string CommonFolder(const std::vector<std::string>& paths) {
  std::string common = paths[0];
  for (const std::string& path : paths) {
    std::size_t same = 0, slash = 0;
    while (same < common.size() && same < path.size() && common[same] == path[same]) {
      if (common[same] == '/') slash = same;
      ++same;
    }
    const bool at_border = (same == common.size() && (same == path.size() || path[same] == '/'));
    if (!at_border) common.resize(same == path.size() && common[same] == '/' ? same : slash);
  }
  return common;
}

}  // namespace

Result<Warmup> LoadWarmup(const Context& ctx, Volume& volume, const WarmupSelection& selection) {
  RETURN_IF_ERROR(selection.Validate());
  const Caller everyone{.check_permissions = false};
  WarmupSelection relative = selection;
  for (std::string& path : relative.paths) path = Normalize(path);
  std::string base = relative.paths.empty() ? "" : CommonFolder(relative.paths);
  auto entry = volume.meta().Resolve(ctx, everyone, kRootIno, base);
  if (!entry) return std::unexpected(std::move(entry).error().Wrap("/" + base));
  if (entry->attr.type != FileType::kDirectory) {
    base.resize(base.rfind('/') == std::string::npos ? 0 : base.rfind('/'));
    entry = volume.meta().Resolve(ctx, everyone, kRootIno, base);
    if (!entry) return std::unexpected(std::move(entry).error().Wrap("/" + base));
  }
  for (std::string& path : relative.paths)
    path.erase(0, base.empty() ? 0 : std::min(path.size(), base.size() + 1));
  Warmup warmup{.tree = {}, .base = base.empty() ? "" : "/" + base, .plan = {}};
  ASSIGN_OR_RETURN(warmup.tree, volume.meta().LoadTree(ctx, entry->ino, true));
  ASSIGN_OR_RETURN(warmup.plan, PlanWarmup(warmup.tree, volume.setting().layout(), relative));
  return warmup;
}

Result<WarmupReport> RunWarmup(const Context& ctx, Volume& volume, const WarmupPlan& plan,
                               const WarmupOptions& options) {
  RETURN_IF_ERROR(NeedsCache(volume));
  if (!options.pin.empty()) RETURN_IF_ERROR(ValidatePlan(options.pin));
  WarmupReport report = Runner(ctx, volume, plan, options).Run();
  RETURN_IF_ERROR(ctx.Check());
  return report;
}

Result<WarmupReport> CheckWarmup(const Context& ctx, Volume& volume, const WarmupPlan& plan) {
  RETURN_IF_ERROR(NeedsCache(volume));
  DiskCache& cache = *volume.disk_cache();
  WarmupReport report;
  report.progress.blocks = plan.blocks.size();
  report.progress.bytes = plan.cache_bytes;
  report.progress.files = plan.files;
  for (const PlannedBlock& planned : plan.blocks) {
    RETURN_IF_ERROR(ctx.Check());
    std::uint64_t bytes = 0;
    if (planned.whole) {
      bytes = cache.Contains(planned.block) ? planned.block.length : 0;
    } else {
      for (const BlockRange& range : planned.ranges) {
        const std::uint32_t size = range.end - range.begin;
        bytes += cache.ContainsRange(planned.block, range.begin, size) ? size : 0;
      }
    }
    report.progress.cached_bytes += bytes;
    report.progress.cached_blocks += bytes == planned.planned ? 1 : 0;
  }
  return report;
}

Result<DiskCache::Removed> EvictPlanned(const Context& ctx, Volume& volume, const WarmupPlan& plan,
                                        std::string_view pins) {
  RETURN_IF_ERROR(NeedsCache(volume));
  DiskCache::Removed total;
  for (const PlannedBlock& planned : plan.blocks) {
    RETURN_IF_ERROR(ctx.Check());
    if (!planned.whole) {
      const std::uint64_t kept = volume.disk_cache()->RangeBytes(planned.block);
      if (kept == 0 || std::uint64_t{planned.planned} * 2 < kept) continue;
    }
    ASSIGN_OR_RETURN(const auto removed, volume.disk_cache()->Clear(ctx, planned.block, pins));
    total.blocks += removed.blocks;
    total.bytes += removed.bytes;
  }
  return total;
}

}  // namespace paddleop::volume::data
