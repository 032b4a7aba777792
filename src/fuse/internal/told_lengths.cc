#include "fuse/internal/told_lengths.h"

#include <algorithm>

namespace paddleop::fuse {
namespace {

// The kernel's own time begins when it has the answer.
constexpr std::chrono::milliseconds kMargin{500};

}  // namespace

ToldLengths::ToldLengths(double timeout_seconds)
    : timeout_(timeout_seconds <= 0
                   ? Clock::duration::zero()
                   : std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(std::min(timeout_seconds, 1e6)) + kMargin)) {
}

std::size_t ToldLengths::Spread(volume::Ino ino) {
  return static_cast<std::size_t>(ToInt(ino) * 0x9e3779b97f4a7c15ULL >> 40);
}

bool ToldLengths::Note(volume::Ino ino, std::uint64_t length, Clock::time_point asked,
                       Clock::time_point now) {
  if (timeout_ == Clock::duration::zero()) return true;
  const std::size_t at = Spread(ino);
  Shard& shard = shards_[at % kShards];
  MutexLock lock(shard.mutex);
  if (!shard.opened.empty()) {
    const Opened& opened = shard.opened[at / kShards % kPerShard];
    const bool same = opened.ino == ino;
    if (asked <= (same ? opened.at : shard.forgotten_opened) && !(same && opened.length == length))
      return false;
  }
  if (shard.told.empty()) shard.told.resize(kPerShard);
  Told& told = shard.told[at / kShards % kPerShard];
  const bool valid = told.until > now;
  if (valid && told.ino != ino) shard.forgotten_until = std::max(shard.forgotten_until, told.until);
  const bool several = valid && told.ino == ino && (told.several || told.length != length);
  told = {.ino = ino, .length = length, .several = several, .until = now + timeout_};
  return true;
}

bool ToldLengths::Doubts(volume::Ino ino, std::uint64_t length, Clock::time_point now) {
  if (timeout_ == Clock::duration::zero()) return false;
  const std::size_t at = Spread(ino);
  Shard& shard = shards_[at % kShards];
  MutexLock lock(shard.mutex);
  if (shard.opened.empty()) shard.opened.resize(kPerShard);
  Opened& opened = shard.opened[at / kShards % kPerShard];
  if (opened.ino != ino) shard.forgotten_opened = std::max(shard.forgotten_opened, opened.at);
  opened = {.ino = ino, .length = length, .at = now};
  if (shard.told.empty()) return false;
  Told& told = shard.told[at / kShards % kPerShard];
  if (told.ino != ino) return shard.forgotten_until > now;
  const bool doubtful = told.until > now && (told.several || told.length != length);
  if (doubtful) told = {};
  return doubtful || shard.forgotten_until > now;
}

}  // namespace paddleop::fuse
