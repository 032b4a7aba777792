#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "volume/format/types.h"
#include "volume/meta/meta_types.h"

namespace paddleop::fuse {

// Remembers which version of a file the kernel's page cache holds, so that opening an unchanged
// file again keeps its pages. Who opens a changed one drops them, but only after it has our answer:
// until it has surely done so, everybody else who opens the file has to drop them, too.
//
// Bounded; thread-safe.
class KnownVersions {
 public:
  using Clock = std::chrono::steady_clock;

  // Of a file that was opened with this handle. True if the kernel's pages are of this version.
  // `losses` is Vfs::losses(): the kernel still holds what was written and then lost.
  bool Unchanged(volume::Ino ino, const volume::Attr& attr, std::uint64_t losses,
                 std::uint64_t handle, Clock::time_point now = Clock::now());
  // The handle is released: whoever opened it has dropped the pages by now, if it had to.
  void Closed(volume::Ino ino, std::uint64_t handle);

 private:
  // What opening takes, and how fast pages go; amply.
  static constexpr std::chrono::seconds kOpening{1};
  static constexpr std::uint64_t kDroppedPerMs = 1U << 20;
  static constexpr std::size_t kMaxOpeners = 8;
  struct Version {
    volume::Timestamp mtime;
    volume::Timestamp ctime;  // programs may set the other one back
    std::uint64_t length = 0;
    std::uint64_t losses = 0;
    bool operator==(const Version&) const = default;
  };
  struct Known {
    Version version;
    Clock::time_point dropped_by;        // what the kernel had of other versions
    std::vector<std::uint64_t> openers;  // handles, the first of those who have to drop it
  };
  static constexpr std::size_t kMax = 200'000;

  Mutex mutex_;
  std::map<volume::Ino, Known> known_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::fuse
