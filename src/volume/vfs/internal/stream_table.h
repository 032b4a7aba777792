#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/mutex.h"
#include "volume/format/types.h"

namespace paddleop::volume {

// Recognises sequential readers of big files where there are no handles to remember them by: some
// streams at a time, those read last. Thread-safe.
class StreamTable {
 public:
  struct Ahead {
    std::uint64_t from = 0;
    std::uint64_t to = 0;  // nothing to fetch if not above `from`
  };

  explicit StreamTable(std::uint64_t block_size) : block_(block_size) {}

  // What to fetch ahead after a read of [offset, end), at most so much at the moment.
  Ahead Note(Ino ino, std::uint64_t offset, std::uint64_t end, std::uint64_t max_bytes) {
    MutexLock lock(mutex_);
    Stream& stream = Find(ino);
    const std::uint64_t used = ++clock_;
    // The kernel reads ahead in parallel, so requests come a little out of order.
    const bool goes_on =
        stream.ino == ino && offset <= stream.next + block_ && offset + block_ >= stream.next;
    if (!goes_on) {
      stream = {.ino = ino, .next = end, .read = end - offset, .ahead = end, .used = used};
      // Whoever starts at the beginning is likely to go on.
      if (offset != 0) return {};
    }
    stream.used = used;
    stream.next = std::max(stream.next, end);
    if (goes_on) stream.read += end - offset;
    if (max_bytes == 0) return {};
    // Blocks are fetched whole, so the least is one of them, however small the limit.
    const std::uint64_t window =
        std::min(std::max(stream.read, block_), std::max(block_, max_bytes));
    if (stream.ahead >= stream.next + window) return {};
    const Ahead ahead{.from = std::max(stream.ahead, end), .to = stream.next + window};
    stream.ahead = ahead.to;
    return ahead;
  }

 private:
  struct Stream {
    Ino ino = kNoIno;
    std::uint64_t next = 0;   // end of what was read
    std::uint64_t read = 0;   // bytes read in sequence
    std::uint64_t ahead = 0;  // end of what was asked for
    std::uint64_t used = 0;   // when it was last read
  };

  // The file's stream, or the one that was not read for longest.
  Stream& Find(Ino ino) REQUIRES(mutex_) {
    const auto found = std::ranges::find(streams_, ino, &Stream::ino);
    return found != streams_.end() ? *found
                                   : *std::ranges::min_element(streams_, {}, &Stream::used);
  }

  const std::uint64_t block_;
  Mutex mutex_;
  std::uint64_t clock_ GUARDED_BY(mutex_) = 0;
  std::array<Stream, 61> streams_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume
