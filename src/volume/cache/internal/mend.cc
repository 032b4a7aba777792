// Pins whose blocks the official client replaced or removed.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "volume/cache/internal/cache_dir.h"
#include "volume/cache/internal/walk.h"

namespace paddleop::volume::cache {
namespace {

constexpr std::size_t kMendBatch = 64;  // under one hold of the lock

bool IsSameFile(const struct stat& one, const struct stat& other) {
  return one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

}  // namespace

std::vector<std::string> CacheDir::KnownPlans() const {
  MutexLock lock(state_mutex_);
  return plans_;
}

void CacheDir::ListPlans() {
  auto plans = Plans();
  MutexLock lock(state_mutex_);
  plans_ = std::move(plans);
}

bool CacheDir::HasPin(const BlockId& block, bool part,
                      const std::vector<std::string>& plans) const {
  return std::ranges::any_of(plans, [&](const std::string& plan) {
    return ::access(PinPath(plan, block, part).c_str(), F_OK) == 0;
  });
}

bool CacheDir::FindPinned(const BlockId& block) {
  // Every miss comes through here: without plans it costs nothing, with them one look at each.
  if (!HasPin(block, false, KnownPlans())) return false;
  Turn turn(*this);
  if (!turn.held()) return false;
  Change change(*counters());
  Mend(block);
  return ::access(WholePath(block).c_str(), F_OK) == 0;
}

// The counters know a pinned block whoever took its name, so nothing is counted here.
void CacheDir::Mend(const BlockId& block) {
  const std::string path = WholePath(block);
  struct stat file{};
  bool here = ::stat(path.c_str(), &file) == 0;
  // Not the place for judging what is there.
  if (here && (!S_ISREG(file.st_mode) || static_cast<std::uint64_t>(file.st_size) < block.length))
    return;
  for (const std::string& plan : KnownPlans()) {
    const std::string pin = PinPath(plan, block, false);
    struct stat pinned{};
    if (::stat(pin.c_str(), &pinned) != 0) continue;
    if (!here) {
      // The official client also removes folders that have become empty.
      if (::link(pin.c_str(), path.c_str()) != 0 && errno == ENOENT &&
          MakeDirectories(path.substr(0, path.rfind('/')), folder_mode())) {
        std::ignore = ::link(pin.c_str(), path.c_str());
      }
      here = ::stat(path.c_str(), &file) == 0;
    } else if (!IsSameFile(file, pinned)) {
      // In one step, so that the block never is without its pin.
      const std::string fresh = TemporaryPath("pin");
      if (::link(path.c_str(), fresh.c_str()) == 0 && ::rename(fresh.c_str(), pin.c_str()) != 0)
        ::unlink(fresh.c_str());
    }
  }
}

Result<void> CacheDir::MendPins(const Context& ctx) {
  ListPlans();
  std::vector<BlockId> lost;
  for (const std::string& plan : KnownPlans()) {
    RETURN_IF_ERROR(
        WalkBlocks(ctx, fmt::format("{}/pinned/{}/raw", root_, plan),
                   [&](const std::string&, const BlockId& block, const struct stat& pinned) {
                     struct stat file{};
                     if (::stat(WholePath(block).c_str(), &file) != 0 || !IsSameFile(file, pinned))
                       lost.push_back(block);
                   }));
  }
  for (std::size_t at = 0; at < lost.size(); at += kMendBatch) {
    RETURN_IF_ERROR(ctx.Check());
    Turn turn(*this);
    if (!turn.held()) return Fail(Code::kUnavailable, "{} is locked for too long", root_);
    Change change(*counters());
    for (const BlockId& block : std::span(lost).subspan(at, std::min(kMendBatch, lost.size() - at)))
      Mend(block);
  }
  if (!lost.empty()) {
    env_.log.Debug(ctx, "pins that another client took away are back",
                   {{"path", root_}, {"blocks", std::to_string(lost.size())}});
  }
  return {};
}

}  // namespace paddleop::volume::cache
