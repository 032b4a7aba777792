#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "volume/format/types.h"

namespace paddleop::fuse {

// The lengths of files that the kernel may still believe in, because it was told them less than
// its attribute timeout ago. Opening a file must show what others wrote to it before, but an answer
// to OPEN has no attributes: who opens a file of another length has to make the kernel ask again.
//
// An answer may be overtaken: it was asked for before a file was opened, is told afterwards, and
// has another length. The kernel must not believe it.
//
// Bounded: where one had to be forgotten for another, the answer is "perhaps". Thread-safe.
class ToldLengths {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ToldLengths(double timeout_seconds);

  // What the kernel is going to be told, by an answer that was asked for at `asked` or later. False
  // if it may have been overtaken: then the kernel has to ask again at once, and nothing is noted.
  bool Note(volume::Ino ino, std::uint64_t length, Clock::time_point asked,
            Clock::time_point now = Clock::now());
  // The file was opened with this length. True if the kernel may believe in another one. It is then
  // taken to be made to forget it.
  bool Doubts(volume::Ino ino, std::uint64_t length, Clock::time_point now = Clock::now());

 private:
  static constexpr std::size_t kShards = 8;
  static constexpr std::size_t kPerShard = 2048;
  struct Told {
    volume::Ino ino = volume::kNoIno;
    std::uint64_t length = 0;
    bool several = false;  // different lengths in a short time: nobody knows which came last
    Clock::time_point until;
  };
  struct Opened {
    volume::Ino ino = volume::kNoIno;
    std::uint64_t length = 0;
    Clock::time_point at = Clock::time_point::min();
  };
  struct Shard {
    Mutex mutex;
    std::vector<Told> told GUARDED_BY(mutex);
    Clock::time_point forgotten_until GUARDED_BY(mutex);  // of what had to give way
    std::vector<Opened> opened GUARDED_BY(mutex);
    Clock::time_point forgotten_opened GUARDED_BY(mutex) = Clock::time_point::min();
  };
  static std::size_t Spread(volume::Ino ino);

  const Clock::duration timeout_;
  std::array<Shard, kShards> shards_;
};

}  // namespace paddleop::fuse
