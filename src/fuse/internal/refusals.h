#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "volume/format/types.h"

namespace paddleop::fuse {

// Who was just told ESTALE for something that it may have come to in another way than by a name
// that the kernel remembers: by a descriptor, or by its working directory. The kernel then looks
// the name up and asks again, with the same thread. If that leads to the same place there is
// nothing better to find, and it gets what it asked for.
//
// Only that thread does: others that came by the old name have to look it up as well.
//
// Bounded: who was forgotten is refused again. Thread-safe.
class Refusals {
 public:
  using Clock = std::chrono::steady_clock;

  // Whether to refuse the inode. One refusal is good for one answer: the thread may come by an old
  // name the next time. `thread` as the kernel names it.
  bool Refuses(pid_t thread, volume::Ino ino, Clock::time_point now = Clock::now());
  // Whether to refuse the answer that there is no such name in the directory. That is asked for
  // more than once before it is believed.
  bool RefusesName(pid_t thread, volume::Ino directory, std::string_view name,
                   Clock::time_point now = Clock::now());

 private:
  static constexpr std::size_t kSlots = 4096;
  // In which the kernel has asked again. Not every call does, and then the name may be there.
  static constexpr std::chrono::seconds kTime{10}, kNameTime{2};
  struct Slot {
    volume::Ino ino = volume::kNoIno;
    std::size_t name = 0;  // its hash
    pid_t thread = 0;
    Clock::time_point until;
  };

  // The slot, and whether it holds this refusal.
  std::pair<Slot*, bool> Find(pid_t thread, volume::Ino ino, std::string_view name,
                              Clock::time_point now) REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<Slot> slots_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::fuse
