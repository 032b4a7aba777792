#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paddleop::fuse {

// Which files' pages stay in the kernel's memory once they were read, when not all have room there.
// The kernel makes room by dropping what was read longest ago, which is the worst it can do to
// epochs: of data twice the memory it finds 15 of 100 files again, although 50 fit. So once files
// come back that it was left with, nearly nothing new is let in any more: what is there stays and
// is found again in every epoch, and what was read besides is dropped at once. A few files are
// always let in. If none of those there had to leave for them, there is room, and more are. A file
// that somebody wants again soon after it was dropped is let in, too, and if there are many of them
// nothing is dropped for a while.
//
// Goes by what the kernel asks for alone. Its requests for one file may come in any order. Not
// thread-safe.
class PageAdmission {
 public:
  explicit PageAdmission(std::size_t files) { Renumber(files); }

  // From now on, numbers stand for other files. How many fit is still known.
  void Renumber(std::size_t files);

  // The kernel has asked for a part of this file, so it does not have it: for its beginning, its
  // end, both or neither. True: it has the end now, and its pages shall go.
  bool Asked(std::size_t file, bool beginning, bool end);
  // They are gone now. Until then nothing that it asks for is taken for another reading.
  void Dropped(std::size_t file);

  // True: files come back as if memory were short. Somebody should look whether the files that
  // Stays() names are still there, and say so. Nothing is dropped before.
  bool suspicious() const { return suspicious_; }
  void Confirm(bool memory_is_short);
  bool Stays(std::size_t file) const { return files_[file].state == State::kStays; }

  std::size_t files() const { return files_.size(); }
  // One in so many files is let in; 1: all are.
  std::size_t period() const { return period_; }

  // How many files are looked at before anything changes.
  static constexpr std::size_t kWindow = 256;
  static constexpr std::size_t kLongestPeriod = 32;

 private:
  enum class State : std::uint32_t {
    kUnknown,
    kMayStay,  // unknown since the files have these numbers
    kStays,    // left with the kernel
    kPassing,  // being read; shall go
    kLeaving,  // was read; being dropped
    kGone,     // dropped
  };
  struct File {
    State state : 3 = State::kUnknown;
    std::uint32_t dropped : 29 = 0;  // how many files had been begun then
  };

  bool WasDroppedJustNow(const File& file) const;
  void Begin(File& file);
  void Look();
  void Pause();
  void StartOver();

  std::vector<File> files_;
  std::size_t seen_ = 0;  // of them, read since they have these numbers
  std::size_t period_ = 1;
  std::size_t all_begun_ = 0;
  bool suspicious_ = false;
  // Since the last look:
  std::size_t begun_ = 0;
  std::size_t let_in_ = 0;
  std::size_t came_back_ = 0;  // had stayed, but the kernel has dropped them
  std::size_t too_early_ = 0;  // were dropped although somebody still wanted them
  // After many of those: how many files are begun before anything is dropped again, and the next
  // time.
  std::size_t pause_ = 0;
  std::size_t next_pause_ = 16 * kWindow;
};

}  // namespace paddleop::fuse
