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

void ToldLengths::Note(volume::Ino ino, std::uint64_t length, Clock::time_point now) {
  if (timeout_ == Clock::duration::zero()) return;
  const std::size_t at = Spread(ino);
  Shard& shard = shards_[at % kShards];
  MutexLock lock(shard.mutex);
  if (shard.told.empty()) shard.told.resize(kPerShard);
  Told& told = shard.told[at / kShards % kPerShard];
  const bool valid = told.until > now;
  if (valid && told.ino != ino) shard.forgotten_until = std::max(shard.forgotten_until, told.until);
  const bool several = valid && told.ino == ino && (told.several || told.length != length);
  told = {.ino = ino, .length = length, .several = several, .until = now + timeout_};
}

bool ToldLengths::Doubts(volume::Ino ino, std::uint64_t length, Clock::time_point now) {
  const std::size_t at = Spread(ino);
  Shard& shard = shards_[at % kShards];
  MutexLock lock(shard.mutex);
  if (shard.told.empty()) return false;
  Told& told = shard.told[at / kShards % kPerShard];
  if (told.ino != ino) return shard.forgotten_until > now;
  const bool doubtful = told.until > now && (told.several || told.length != length);
  if (doubtful) told = {};
  return doubtful || shard.forgotten_until > now;
}

}  // namespace paddleop::fuse
