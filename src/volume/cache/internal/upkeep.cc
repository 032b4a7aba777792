// Keeping a cache directory within its limits, its counters right and its disk watched.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <queue>
#include <tuple>

#include "base/bytes.h"
#include "volume/cache/internal/cache_dir.h"
#include "volume/cache/internal/walk.h"

namespace paddleop::volume::cache {
namespace {

constexpr std::size_t kMaxVictims = 65536;  // looked at in one round
constexpr std::size_t kBatch = 64;          // removed under one hold of the lock
constexpr auto kFruitlessPause = std::chrono::seconds(5);
constexpr auto kProbeInterval = std::chrono::seconds(2);
constexpr auto kFullPause = std::chrono::seconds(5);
constexpr auto kErrorWindow = std::chrono::seconds(60);
constexpr std::size_t kErrorsToLeave = 3;
constexpr std::size_t kFilesToTell = 20;  // in a window, of those that we have no right to open
constexpr auto kShortWalk = std::chrono::milliseconds(100);
constexpr auto kRemovalPerRound = std::chrono::seconds(1);  // of what clears left

std::uint64_t NotNegative(const std::atomic<std::int64_t>& value) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, value.load()));
}

}  // namespace

std::optional<CacheDir::Space> CacheDir::DiskSpace() const {
  struct statvfs info{};
  if (::statvfs(root_.c_str(), &info) != 0) return std::nullopt;
  return Space{.total = std::uint64_t{info.f_blocks} * info.f_frsize,
               .available = std::uint64_t{info.f_bavail} * info.f_frsize,
               .files = info.f_files,
               .files_available = info.f_favail};
}

Result<void> CacheDir::Admits(std::uint64_t bytes) const {
  {
    MutexLock lock(state_mutex_);
    if (counters() == nullptr) return Fail(Code::kUnavailable, "it is not open");
    if (env_.options.clock->Now() < full_until_) return Fail(Code::kNoSpace, "the disk is full");
  }
  const auto counters = this->counters();
  const std::uint64_t used = NotNegative((*counters)->bytes);
  if (used + bytes > directory_.capacity) {
    return Fail(Code::kNoSpace, "{} of {} are used, {} of them pinned", FormatSize(used),
                FormatSize(directory_.capacity),
                FormatSize(NotNegative((*counters)->pinned_bytes)));
  }
  const auto space = DiskSpace();
  if (!space) return Fail(Code::kUnavailable, "the disk does not answer");
  const auto reserve =
      static_cast<std::uint64_t>(directory_.free_space_ratio * static_cast<double>(space->total));
  if (space->available < reserve + bytes) {
    return Fail(Code::kNoSpace, "its disk has {} left, of which {} stay free",
                FormatSize(space->available), FormatSize(reserve));
  }
  const auto files =
      static_cast<std::uint64_t>(directory_.free_space_ratio * static_cast<double>(space->files));
  if (space->files > 0 && space->files_available < files + 2)
    return Fail(Code::kNoSpace, "its disk has no inodes left");
  return {};
}

void CacheDir::SetProblem(std::string problem) {
  MutexLock lock(state_mutex_);
  problem_ = std::move(problem);
}

bool CacheDir::TakeOut(const std::string& problem) {
  SetProblem(problem);
  if (!usable_.exchange(false)) return false;
  env_.metrics.out.Add(1);
  env_.log.Warn(Context::Background(), "cache directory is taken out of use",
                {{"path", directory_.path}, {"why", problem}});
  return true;
}

std::string CacheDir::Hanging() const {
  const auto pending = operations_.Oldest();
  if (!pending) return {};
  const auto age = Operations::Steady::now() - pending->since;
  if (age < env_.options.hang_limit) return {};
  return fmt::format("the disk hangs: {} has not come back for {} s", pending->what,
                     std::chrono::duration_cast<std::chrono::seconds>(age).count());
}

void CacheDir::Watch() {
  const auto pending = operations_.Oldest();
  const auto now = Operations::Steady::now();
  answers_ = !pending || now - pending->since < env_.options.answer_limit;
  if (!usable()) return;
  const std::string problem = Hanging();
  if (problem.empty()) return;
  env_.metrics.errors.Increment();
  // Open files stay until somebody who may wait closes them: that, too, may hang.
  TakeOut(problem);
}

void CacheDir::Failed(std::string_view what, const std::string& path, int error, Blame blame) {
  env_.metrics.errors.Increment();
  const std::string message = ErrnoStatus(error, fmt::format("{} {}", what, path)).message();
  const auto now = env_.options.clock->Now();
  bool leave = false, tell = true;
  {
    MutexLock lock(state_mutex_);
    if (error == ENOSPC || error == EDQUOT) {
      tell = now >= full_until_;
      full_until_ = now + kFullPause;
    } else if (blame == Blame::kRights) {
      std::erase_if(rights_errors_,
                    [&](const IoError& known) { return now - known.at > kErrorWindow; });
      tell = rights_errors_.size() < kFilesToTell &&
             std::ranges::find(rights_errors_, path, &IoError::path) == rights_errors_.end();
      if (tell) rights_errors_.push_back({.at = now, .path = path});
    } else if (error == EMFILE || error == ENFILE || error == ENOMEM) {
      // This process's trouble, not the disk's.
    } else {
      const bool of_file = blame == Blame::kFile;
      std::erase_if(io_errors_, [&](const IoError& known) {
        return now - known.at > kErrorWindow || (of_file && known.path == path);
      });
      io_errors_.push_back({.at = now, .path = of_file ? path : ""});
      // Names can vanish while somebody clears the directory; that alone is no failure.
      leave = (!of_file && error != EIO && error != ENOENT) || io_errors_.size() >= kErrorsToLeave;
    }
  }
  if (leave) {
    if (TakeOut(message)) env_.forget(std::nullopt);
    return;
  }
  if (tell)
    env_.log.Warn(Context::Background(),
                  blame == Blame::kRights ? "cache file cannot be opened" : "cache disk failed",
                  {{"path", path}, {"error", message}});
}

// The blocks that were read longest ago and have no pin; at most kMaxVictims of them.
Result<std::vector<CacheDir::Victim>> CacheDir::OldestBlocks(const Context& ctx) const {
  std::priority_queue<Victim> oldest;  // the youngest on top
  for (const bool part : {false, true}) {
    RETURN_IF_ERROR(
        WalkBlocks(ctx, root_ + (part ? "/part" : "/raw"),
                   [&](const std::string&, const BlockId& block, const struct stat& info) {
                     if (info.st_nlink > 1) return;
                     const Victim victim{.read = std::max(info.st_atim.tv_sec, info.st_mtim.tv_sec),
                                         .bytes = ChargedBytes(info, part),
                                         .block = block,
                                         .part = part};
                     if (oldest.size() >= kMaxVictims && !(victim < oldest.top())) return;
                     oldest.push(victim);
                     if (oldest.size() > kMaxVictims) oldest.pop();
                   }));
  }
  std::vector<Victim> victims;
  victims.reserve(oldest.size());
  for (; !oldest.empty(); oldest.pop()) victims.push_back(oldest.top());
  std::reverse(victims.begin(), victims.end());
  return victims;
}

void CacheDir::EvictBatch(std::span<const Victim> victims, DiskCache::Removed& freed) {
  Turn turn(*this);
  if (!turn.held()) return;
  const auto counters = this->counters();
  Change change(*counters);
  const auto plans = KnownPlans();
  for (const Victim& victim : victims) {
    const std::string path = victim.part ? PartPath(victim.block) : WholePath(victim.block);
    struct stat info{};
    // It may have been pinned since it was listed.
    if (::stat(path.c_str(), &info) != 0 || info.st_nlink > 1) continue;
    // Or its pin is of the file that this one replaced.
    if (!victim.part && HasPin(victim.block, false, plans)) {
      Mend(victim.block);
      continue;
    }
    if (auto bytes = RemoveFile(path, victim.block, victim.part, {})) {
      ++freed.blocks;
      freed.bytes += *bytes;
      ++(*counters)->evicted;
      env_.metrics.evicted.Increment();
    }
  }
}

bool CacheDir::Evict(const Context& ctx, const Shortage& shortage, std::uint64_t spare) {
  const auto [bytes, files] = shortage;
  const auto now = env_.options.clock->Now();
  if (tried_ && now < fruitless_ + kFruitlessPause) return false;
  const auto counters = this->counters();
  if (!usable() || !counters) return false;
  DiskCache::Removed freed;
  // When all is pinned there is no need to look.
  if ((*counters)->pinned_bytes.load() < (*counters)->bytes.load() || files > 0) {
    auto victims = OldestBlocks(ctx);
    if (!victims) {
      env_.log.Warn(ctx, "cache directory cannot be walked",
                    {{"path", root_}, {"error", victims.error().message()}});
      victims = std::vector<Victim>();
    }
    // What is being read goes last.
    std::stable_partition(victims->begin(), victims->end(),
                          [&](const Victim& victim) { return !env_.in_use(victim.block); });
    for (std::size_t at = 0; at < victims->size() && !ctx.Stopped() &&
                             (freed.bytes < bytes + spare || freed.blocks < files);) {
      // Only as many as are needed.
      std::size_t count = 0;
      std::uint64_t planned = freed.bytes;
      while (count < kBatch && at + count < victims->size() &&
             (planned < bytes + spare || freed.blocks + count < files)) {
        planned += (*victims)[at + count].bytes;
        ++count;
      }
      EvictBatch(std::span(*victims).subspan(at, count), freed);
      at += count;
    }
  }
  tried_ = freed.bytes < bytes || freed.blocks < files;
  if (tried_) fruitless_ = now;
  if (freed.blocks > 0) {
    env_.log.Debug(ctx, "evicted cached blocks",
                   {{"path", root_},
                    {"blocks", FormatCount(freed.blocks)},
                    {"bytes", FormatSize(freed.bytes)}});
  }
  return freed.bytes >= bytes && freed.blocks >= files;
}

CacheDir::Shortage CacheDir::ShortOf(std::uint64_t bytes) const {
  const std::uint64_t used = NotNegative((*counters())->bytes);
  Shortage shortage;
  if (used + bytes > directory_.capacity) shortage.bytes = used + bytes - directory_.capacity;
  if (const auto space = DiskSpace()) {
    const double ratio = directory_.free_space_ratio;
    const auto reserve = static_cast<std::uint64_t>(ratio * static_cast<double>(space->total));
    const auto keep = static_cast<std::uint64_t>(ratio * static_cast<double>(space->files));
    if (space->available < reserve + bytes)
      shortage.bytes = std::max(shortage.bytes, reserve + bytes - space->available);
    if (space->files > 0 && space->files_available < keep + 2)
      shortage.files = keep + 2 - space->files_available;
  }
  return shortage;
}

std::optional<CacheDir::Room> CacheDir::MakeRoom(const Context& ctx, std::uint64_t bytes) {
  // Whoever waited here looks anew: the one before may have made room for both.
  MutexLock round(evict_mutex_);
  if (!usable()) return std::nullopt;
  const auto counters = this->counters();
  const std::uint64_t used = NotNegative((*counters)->bytes);
  if (bytes > 0 && ShortOf(bytes).bytes > used) return std::nullopt;
  const Shortage shortage = ShortOf(bytes + promised_.load());
  if (shortage.bytes > 0 || shortage.files > 0) {
    // A little more than asked, so that the next block need not wait again: of what is here, since
    // the capacity may be many times what the disk can hold.
    const std::uint64_t spare = std::min(directory_.capacity, used) / 20;
    if (!Evict(ctx, shortage, spare) && !Admits(bytes)) return std::nullopt;
  }
  return Room(*this, bytes);
}

Result<CacheDir::Totals> CacheDir::CountFiles(const Context& ctx) const {
  Totals seen;
  for (const bool part : {false, true}) {
    RETURN_IF_ERROR(WalkBlocks(ctx, root_ + (part ? "/part" : "/raw"),
                               [&](const std::string&, const BlockId&, const struct stat& info) {
                                 const auto bytes =
                                     static_cast<std::int64_t>(ChargedBytes(info, part));
                                 seen.bytes += bytes;
                                 if (info.st_nlink > 1) seen.pinned += bytes;
                                 (part ? seen.parts : seen.blocks) += 1;
                                 if (part) seen.part_bytes += bytes;
                               }));
  }
  return seen;
}

// What the counters say; only whole under the lock.
CacheDir::Totals CacheDir::Counted(const SharedCounters& page) {
  return {.blocks = page->blocks,
          .bytes = page->bytes,
          .pinned = page->pinned_bytes,
          .parts = page->part_blocks,
          .part_bytes = page->part_bytes};
}

void CacheDir::Accept(SharedCounters& page, const Totals& seen) {
  const auto at_least_zero = [](std::int64_t value) { return std::max<std::int64_t>(0, value); };
  page->blocks = at_least_zero(seen.blocks);
  page->bytes = at_least_zero(seen.bytes);
  page->pinned_bytes = at_least_zero(seen.pinned);
  page->part_blocks = at_least_zero(seen.parts);
  page->part_bytes = at_least_zero(seen.part_bytes);
  page->counted = std::chrono::system_clock::to_time_t(env_.options.clock->WallNow());
  MutexLock lock(state_mutex_);
  recount_at_ = env_.options.clock->Now() + env_.options.recount_interval;
}

// A walk takes minutes on a large disk, so nobody waits for it. It is exact if nothing changed
// meanwhile. Otherwise a small directory is walked again while others do wait, for no longer than
// for any other change. In a large one, what was counted meanwhile is added: of that, the walk may
// have seen a part already, which the next one puts right.
Result<void> CacheDir::Recount(const Context& ctx) {
  SharedCounters* const counters = this->counters();
  if (counters == nullptr) return {};
  auto& page = *counters;
  RETURN_IF_ERROR(MendPins(ctx));
  std::uint64_t changes = 0;
  Totals before;
  {
    Turn turn(*this);
    if (!turn.held()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
    // Changes happen under the lock: what is left is a dead process's.
    if (page->in_flight.exchange(0) != 0) page->counted = 0;
    changes = page->changes;
    before = Counted(page);
  }
  const auto begun = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(Totals seen, CountFiles(ctx));
  const bool small = std::chrono::steady_clock::now() - begun < kShortWalk;
  Turn turn(*this);
  if (!turn.held()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
  if (page->changes != changes) {
    std::optional<Totals> exact;
    if (small) {
      if (auto again = CountFiles(ctx.WithTimeout(2 * kShortWalk))) exact = *again;
    }
    const Totals now = Counted(page);
    seen =
        exact.value_or(Totals{.blocks = seen.blocks + now.blocks - before.blocks,
                              .bytes = seen.bytes + now.bytes - before.bytes,
                              .pinned = seen.pinned + now.pinned - before.pinned,
                              .parts = seen.parts + now.parts - before.parts,
                              .part_bytes = seen.part_bytes + now.part_bytes - before.part_bytes});
  }
  Accept(page, seen);
  return {};
}

bool CacheDir::SomebodyDied() {
  if ((*counters())->in_flight == 0) return false;
  Turn turn(*this);
  return turn.held() && (*counters())->in_flight != 0;
}

// Tries a directory that was taken out.
bool CacheDir::Probe() {
  const auto now = env_.options.clock->Now();
  {
    MutexLock lock(state_mutex_);
    if (now < probe_at_) return false;
    probe_at_ = now + kProbeInterval;
  }
  // As long as one operation hangs, others would come to hang beside it.
  if (std::string problem = Hanging(); !problem.empty()) {
    SetProblem(std::move(problem));
    return false;
  }
  const std::string path = fmt::format("{}/.samplefs.probe-{}", root_, ::getpid());
  Result<void> works = CheckPlace();
  if (works) works = MakeDirectories(root_, 0700);
  if (works) works = WriteFileAtomic(path, "probe", 0600);
  if (works) {
    auto read = ReadFile(path, 64);
    if (!read) works = std::unexpected(read.error());
    ::unlink(path.c_str());
  }
  if (works) works = Attach();
  if (!works) {
    SetProblem(works.error().message());
    return false;
  }
  env_.log.Info(Context::Background(), "cache directory is back in use",
                {{"path", directory_.path}});
  return true;
}

void CacheDir::Upkeep(const Context& ctx) {
  if (!usable() && !Probe()) return;
  if (!counters()->IsAt(root_ + "/.samplefs.counters")) {
    // Somebody removed or replaced the directory under us, the disk was full when we came, or it
    // has failed.
    if (auto attached = Attach(); !attached) {
      if (TakeOut(attached.error().message())) env_.forget(std::nullopt);
      return;
    }
  }
  ListPlans();  // others may have pinned for new ones
  bool recount = counters()->needs_walk() || SomebodyDied();
  {
    MutexLock lock(state_mutex_);
    recount = recount || env_.options.clock->Now() >= recount_at_;
  }
  if (recount) {
    if (auto counted = Recount(ctx); !counted) {
      env_.log.Warn(ctx, "cache directory cannot be counted",
                    {{"path", root_}, {"error", counted.error().message()}});
    }
  }
  // In pieces, since all else waits meanwhile; before anything is evicted for the space it takes.
  const Context removing = ctx.WithTimeout(kRemovalPerRound);
  if (auto gone = RemoveCleared(removing); !gone && removing.Check()) {
    if (!std::exchange(told_cleared_, true)) {
      env_.log.Warn(ctx, "what was cleared cannot be removed",
                    {{"path", root_}, {"error", gone.error().message()}});
    }
  } else if (gone) {
    told_cleared_ = false;
  }
  const bool wanted = wants_room_.exchange(false, std::memory_order_relaxed);
  // Without a wish only what is over the limits goes: others may fill the disk.
  std::ignore = MakeRoom(ctx, wanted ? env_.options.layout.block_size + 4096 : 0);
}

CacheDirectoryStatus CacheDir::Status() const {
  CacheDirectoryStatus status{.directory = directory_, .usable = usable()};
  const auto counters = this->counters();
  {
    MutexLock lock(state_mutex_);
    status.problem = problem_;
  }
  if (counters) {
    const auto& page = *counters;
    status.blocks = NotNegative(page->blocks);
    status.bytes = NotNegative(page->bytes);
    status.pinned_bytes = NotNegative(page->pinned_bytes);
    status.part_blocks = NotNegative(page->part_blocks);
    status.part_bytes = NotNegative(page->part_bytes);
    status.counted = std::chrono::system_clock::from_time_t(page->counted.load());
  }
  // Asking a disk that hangs would hang as well.
  const bool answers = this->answers();
  if (status.usable && !answers) status.problem = "the disk does not answer";
  if (const auto space = status.usable && answers ? DiskSpace() : std::nullopt) {
    status.disk_total = space->total;
    status.disk_free = space->available;
  }
  status.admitting = status.usable && answers;
  if (status.admitting) {
    const auto admits = Admits(env_.options.layout.block_size + 4096);
    // What is merely full makes room by evicting.
    if (!admits && status.pinned_bytes + env_.options.layout.block_size >= status.bytes) {
      status.admitting = false;
      status.problem = admits.error().message();
    }
  }
  return status;
}

Result<void> CacheDir::ForEachBlock(const Context& ctx, const DiskCache::BlockFn& fn) const {
  for (const bool part : {false, true}) {
    RETURN_IF_ERROR(
        WalkBlocks(ctx, root_ + (part ? "/part" : "/raw"),
                   [&](const std::string&, const BlockId& block, const struct stat& info) {
                     fn(block, part, info.st_nlink > 1);
                   }));
  }
  return {};
}

}  // namespace paddleop::volume::cache
