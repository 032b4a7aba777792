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
// always let in. If none of those there had to leave for them, there is room, and more are.
//
// Goes by what the kernel asks for alone. Not thread-safe.
class PageAdmission {
 public:
  explicit PageAdmission(std::size_t files) : states_(files, State::kUnknown) {}

  // The kernel has asked for the beginning of this file, so it does not have it.
  void Begin(std::size_t file);
  // It has asked for something further on.
  void Continue(std::size_t file);
  // It has the end now. True: its pages shall go.
  bool End(std::size_t file);

  // True: files come back as if memory were short. Somebody should look whether the files that
  // Stays() names are still there, and say so. Nothing is dropped before.
  bool suspicious() const { return suspicious_; }
  void Confirm(bool memory_is_short);
  bool Stays(std::size_t file) const { return states_[file] == State::kStays; }

  std::size_t files() const { return states_.size(); }
  // One in so many files is let in; 1: all are.
  std::size_t period() const { return period_; }

  // How many files are looked at before anything changes.
  static constexpr std::size_t kWindow = 256;
  static constexpr std::size_t kLongestPeriod = 32;

 private:
  enum class State : std::uint8_t {
    kUnknown,
    kStays,    // left with the kernel
    kPassing,  // being read; shall go
    kGone,     // was told to go
  };

  void Look();
  void StartOver();

  std::vector<State> states_;
  std::size_t period_ = 1;
  std::size_t turn_ = 0;
  bool suspicious_ = false;
  // Since the last look:
  std::size_t begun_ = 0;
  std::size_t came_back_ = 0;     // had stayed, but the kernel has dropped them
  std::size_t read_further_ = 0;  // were told to go too early
  // After that was so: how many files are begun before anything is dropped again, and the next
  // time.
  std::size_t pause_ = 0;
  std::size_t next_pause_ = 16 * kWindow;
};

}  // namespace paddleop::fuse
