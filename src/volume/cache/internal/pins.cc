// Pins of a cache directory, and removing blocks with them.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "volume/cache/internal/cache_dir.h"
#include "volume/cache/internal/walk.h"

namespace paddleop::volume {

Result<void> ValidatePlan(std::string_view plan) {
  const bool good = !plan.empty() && plan.size() <= 128 && !plan.starts_with('.') &&
                    plan.find_first_not_of(
                        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789-_.") == std::string_view::npos;
  if (good) return {};
  return Fail(Code::kInvalid,
              "\"{}\" cannot name a plan; use 1 to 128 letters, digits, '-', '_' and '.', not "
              "beginning with '.'",
              plan);
}

namespace cache {
namespace {

constexpr std::string_view kCleared = "cleared";

std::string Parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

std::string CacheDir::PinPath(std::string_view plan, const BlockId& block, bool part) const {
  return fmt::format("{}/pinned/{}/{}/{}", root_, plan, part ? "part" : "raw",
                     BlockKey(env_.options.layout, block));
}

std::vector<std::string> CacheDir::Plans() const {
  std::vector<std::string> plans;
  std::error_code error;
  for (std::filesystem::directory_iterator it(root_ + "/pinned", error), end; !error && it != end;
       it.increment(error)) {
    plans.push_back(it->path().filename().string());
  }
  return plans;
}

// Called with the lock.
Result<bool> CacheDir::PinFile(const BlockId& block, std::string_view plan, bool part) {
  const std::string path = part ? PartPath(block) : WholePath(block);
  const std::string pin = PinPath(plan, block, part);
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (::link(path.c_str(), pin.c_str()) == 0) {
      struct stat info{};
      if (::stat(pin.c_str(), &info) == 0 && info.st_nlink == 2)
        (*counters())->pinned_bytes += static_cast<std::int64_t>(ChargedBytes(info, part));
      return true;
    }
    if (errno == EEXIST) {
      struct stat ours{}, theirs{};
      if (::stat(path.c_str(), &theirs) != 0 || ::stat(pin.c_str(), &ours) != 0) return false;
      if (ours.st_ino == theirs.st_ino) return true;
      // The pin of a file that somebody replaced.
      if (attempt == 2) return false;
      if (part) {
        ::unlink(pin.c_str());
      } else {
        ListPlans();  // this one among them
        Mend(block);
      }
      continue;
    }
    if (errno != ENOENT) break;
    if (::access(path.c_str(), F_OK) != 0) return false;
    RETURN_IF_ERROR(MakeDirectories(Parent(pin), 0700));
  }
  const int error = errno;
  Failed("link", pin, error);
  return std::unexpected(ErrnoStatus(error, "pin " + path));
}

Result<bool> CacheDir::Pin(const BlockId& block, std::string_view plan) {
  if (!usable()) return false;
  const bool whole = HasWhole(block);
  if (!whole && !HasPart(block)) return false;
  Turn turn(*this);
  if (!turn.held()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
  const auto counters = this->counters();
  Change change(*counters);
  ASSIGN_OR_RETURN(const bool pinned, PinFile(block, plan, !whole));
  const auto known = KnownPlans();
  if (std::ranges::find(known, plan) == known.end()) ListPlans();
  return pinned;
}

Result<void> CacheDir::Trim(const BlockId& block, std::span<const BlockFile::Span> keep,
                            std::string_view family) {
  auto file = OpenPart(block, PartFile::Access::kWrite);
  if (!file || !file->HasOutside(keep)) return {};
  const auto plans = Plans();
  Turn turn(*this);
  if (!turn.held()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
  for (const std::string& plan : plans) {
    if (plan.starts_with(family)) continue;
    if (::access(PinPath(plan, block, true).c_str(), F_OK) == 0) return {};
  }
  const auto counters = this->counters();
  Change change(*counters);
  struct stat before{}, after{};
  if (::fstat(file->fd(), &before) != 0) return ErrnoFail("stat {}", PartPath(block));
  auto trimmed = file->Trim(keep);
  if (::fstat(file->fd(), &after) != 0) return ErrnoFail("stat {}", PartPath(block));
  if (before.st_nlink > 0) {  // otherwise it was removed meanwhile, and is counted as such
    const auto freed = static_cast<std::int64_t>(ChargedBytes(before, true)) -
                       static_cast<std::int64_t>(ChargedBytes(after, true));
    (*counters)->part_bytes -= freed;
    (*counters)->bytes -= freed;
    if (after.st_nlink > 1) (*counters)->pinned_bytes -= freed;
  }
  if (!trimmed) Failed("trim", PartPath(block), ToErrno(trimmed.error().code()));
  return trimmed;
}

// The whole block is here: plans that had ranges of it get it instead.
Result<void> CacheDir::ReplacePart(const BlockId& block) {
  Turn turn(*this);
  if (!turn.held()) return {};  // both stay, and the whole block is found first
  const auto counters = this->counters();
  Change change(*counters);
  const auto plans = Plans();
  for (const std::string& plan : plans) {
    if (::access(PinPath(plan, block, true).c_str(), F_OK) != 0) continue;
    ASSIGN_OR_RETURN([[maybe_unused]] const bool pinned, PinFile(block, plan, false));
  }
  RemoveFile(PartPath(block), block, true, plans);
  return {};
}

std::optional<std::uint64_t> CacheDir::RemoveFile(const std::string& path, const BlockId& block,
                                                  bool part,
                                                  const std::vector<std::string>& plans) {
  struct stat info{};
  bool found = ::stat(path.c_str(), &info) == 0, pinned = found && info.st_nlink > 1;
  for (const std::string& plan : plans) {
    const std::string pin = PinPath(plan, block, part);
    // Somebody may have taken the name, or put another file there: then the pin is all we have.
    struct stat linked{};
    if (::stat(pin.c_str(), &linked) != 0 || ::unlink(pin.c_str()) != 0) continue;
    if (!found) info = linked;
    found = pinned = true;
  }
  if (::unlink(path.c_str()) != 0 && (errno != ENOENT || !found)) {
    // What cannot be read and not be removed either is the disk's trouble.
    if (IsMediumError(errno) || errno == EROFS) Failed("remove", path, errno);
    return std::nullopt;
  }
  if (!found) return 0;  // a name that leads nowhere, which nobody has counted
  const std::uint64_t bytes = ChargedBytes(info, part);
  const auto counters = this->counters();
  auto& page = *counters;
  if (part) {
    page->part_blocks -= 1;
    page->part_bytes -= static_cast<std::int64_t>(bytes);
  } else {
    page->blocks -= 1;
  }
  page->bytes -= static_cast<std::int64_t>(bytes);
  if (pinned) page->pinned_bytes -= static_cast<std::int64_t>(bytes);
  return bytes;
}

Result<DiskCache::Removed> CacheDir::Clear(const BlockId& block, std::string_view plan) {
  DiskCache::Removed removed;
  if (!usable()) return removed;
  struct stat info{};
  const std::string whole = WholePath(block), part = PartPath(block);
  if (::lstat(whole.c_str(), &info) != 0 && ::lstat(part.c_str(), &info) != 0 &&
      !HasPin(block, false, KnownPlans())) {
    return removed;
  }
  Turn turn(*this);
  if (!turn.held()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
  const auto counters = this->counters();
  Change change(*counters);
  const auto plans = Plans();
  for (const bool is_part : {false, true}) {
    const bool shared = !plan.empty() && std::ranges::any_of(plans, [&](const std::string& other) {
      return other != plan && ::access(PinPath(other, block, is_part).c_str(), F_OK) == 0;
    });
    if (shared) {
      ::unlink(PinPath(plan, block, is_part).c_str());
    } else if (auto bytes = RemoveFile(is_part ? part : whole, block, is_part, plans)) {
      ++removed.blocks;
      removed.bytes += *bytes;
    }
  }
  return removed;
}

Result<DiskCache::Removed> CacheDir::Unpin(const Context& ctx, std::string_view plan) {
  DiskCache::Removed removed;
  if (!usable()) return removed;
  const std::string folder = fmt::format("{}/pinned/{}", root_, plan);
  const auto counters = this->counters();
  for (const bool part : {false, true}) {
    std::vector<std::pair<std::string, BlockId>> batch;
    bool locked = true;
    const auto flush = [&] {
      Turn turn(*this);
      locked = turn.held();
      if (!locked) return;
      Change change(*counters);
      for (const auto& [pin, block] : batch) {
        struct stat info{};
        if (!part) Mend(block);
        if (::stat(pin.c_str(), &info) != 0 || ::unlink(pin.c_str()) != 0) continue;
        const std::uint64_t bytes = ChargedBytes(info, part);
        if (info.st_nlink == 2) (*counters)->pinned_bytes -= static_cast<std::int64_t>(bytes);
        ++removed.blocks;
        removed.bytes += bytes;
      }
      batch.clear();
    };
    // Names are collected first: removing while listing may hide some of them.
    std::vector<std::pair<std::string, BlockId>> pins;
    RETURN_IF_ERROR(WalkBlocks(ctx, folder + (part ? "/part" : "/raw"),
                               [&](const std::string& path, const BlockId& block,
                                   const struct stat&) { pins.emplace_back(path, block); }));
    for (auto& pin : pins) {
      batch.push_back(std::move(pin));
      if (batch.size() >= 256) flush();
      if (!locked) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
    }
    flush();
    if (!locked) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
  }
  RemoveEmptyFolders(folder);  // others may be pinning under this plan just now
  tried_ = false;              // there may be something to evict now
  return removed;
}

Result<void> CacheDir::RemoveBegun() const {
  // All that was cached may be in what a clear moved away: it takes its time, and others wait.
  for (const std::string& path : Temporaries(false))
    RETURN_IF_ERROR(RemoveTree(Context::Background(), path));
  return {};
}

std::vector<std::string> CacheDir::Temporaries(bool cleared) const {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(root_ + std::string(kTemporary), error), end;
       !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(kCleared) == cleared)
      paths.push_back(it->path().string());
  }
  return paths;
}

Result<void> CacheDir::RemoveCleared(const Context& ctx) {
  const auto cleared = Temporaries(true);
  if (cleared.empty()) return {};
  {
    // Whoever was just making one of them has locked it when this is had.
    Turn turn(*this);
    if (!turn.held()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
  }
  Result<void> done;
  for (const std::string& folder : cleared) {
    RETURN_IF_ERROR(ctx.Check());
    const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid() || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;  // somebody is at it
    if (auto removed = RemoveTree(ctx, folder); !removed) done = std::move(removed);
  }
  return done;
}

Result<DiskCache::Removed> CacheDir::ClearAll(const Context& ctx) {
  DiskCache::Removed removed;
  if (!usable()) return removed;
  // Moved away in one step, so that readers see all of it or nothing, and then deleted.
  const std::string trash = TemporaryPath(kCleared);
  UniqueFd clearing;  // locked: nobody else removes it while we count
  {
    Turn turn(*this);
    if (!turn.held()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
    RETURN_IF_ERROR(MakeDirectories(trash, 0700));
    ASSIGN_OR_RETURN(clearing, OpenFile(trash, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (::flock(clearing.get(), LOCK_EX) != 0) return ErrnoFail("lock {}", trash);
    const auto counters = this->counters();
    Change change(*counters);
    for (const char* folder : {"pinned", "raw", "part"}) {
      if (::rename(fmt::format("{}/{}", root_, folder).c_str(),
                   fmt::format("{}/{}", trash, folder).c_str()) != 0 &&
          errno != ENOENT) {
        return ErrnoFail("clear {}/{}", root_, folder);
      }
    }
    auto& page = *counters;
    page->blocks = page->bytes = page->pinned_bytes = page->part_blocks = page->part_bytes = 0;
  }
  env_.forget(std::nullopt);
  RETURN_IF_ERROR(MakeDirectories(root_ + "/raw", 0700));
  // Whoever is stopped from here on leaves the rest to the upkeep, or to the next who clears.
  for (const bool part : {false, true}) {
    RETURN_IF_ERROR(WalkBlocks(ctx, trash + (part ? "/part" : "/raw"),
                               [&](const std::string&, const BlockId&, const struct stat& info) {
                                 ++removed.blocks;
                                 removed.bytes += ChargedBytes(info, part);
                               }));
  }
  RETURN_IF_ERROR(RemoveTree(ctx, trash));
  RETURN_IF_ERROR(RemoveCleared(ctx));
  return removed;
}

}  // namespace cache
}  // namespace paddleop::volume
