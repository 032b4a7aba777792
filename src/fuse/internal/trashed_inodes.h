#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "base/mutex.h"
#include "volume/format/types.h"

namespace paddleop::fuse {

// Inodes that the kernel knows to be in the trash. To any other one that is there it came by a name
// that it remembers and that may stand for another file by now.
//
// Bounded: what was forgotten the kernel has to look up again. Thread-safe.
class TrashedInodes {
 public:
  // The kernel was told of it in the trash, or elsewhere.
  void Note(volume::Ino ino);
  void Forget(volume::Ino ino);
  bool Knows(volume::Ino ino) const;

 private:
  static constexpr std::size_t kSlots = 16'384;
  static std::size_t At(volume::Ino ino);

  mutable Mutex mutex_;
  std::atomic<bool> used_{false};
  std::vector<volume::Ino> slots_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::fuse
