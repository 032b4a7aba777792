#include "fuse/internal/page_admission.h"

#include <algorithm>

namespace paddleop::fuse {
namespace {

constexpr std::uint32_t kMostCounted = (1U << 29) - 1;

}  // namespace

void PageAdmission::Renumber(std::size_t files) {
  // While memory is short, what is asked for next may have been there before.
  files_ = std::vector<File>(files, File{period_ > 1 ? State::kMayStay : State::kUnknown, 0});
  seen_ = 0;
  suspicious_ = false;
  StartOver();
}

bool PageAdmission::WasDroppedJustNow(const File& file) const {
  // Of epochs in random order, one file in 500 is read again within a 16th of one.
  const std::size_t since = (all_begun_ - file.dropped) & kMostCounted;
  return since < std::max(kWindow, seen_ / 16);
}

bool PageAdmission::Asked(std::size_t number, bool beginning, bool end) {
  File& file = files_[number];
  switch (file.state) {
    case State::kLeaving:
      return false;
    case State::kGone:
      Begin(file);  // whatever part programs read first
      break;
    case State::kUnknown:
    case State::kMayStay:
    case State::kStays:
    case State::kPassing:
      if (beginning) Begin(file);
      break;
  }
  if (!end || file.state != State::kPassing) return false;
  file.state = State::kLeaving;
  return true;
}

void PageAdmission::Dropped(std::size_t number) {
  File& file = files_[number];
  if (file.state != State::kLeaving) return;
  file.state = State::kGone;
  file.dropped = all_begun_ & kMostCounted;
}

void PageAdmission::Begin(File& file) {
  ++begun_;
  ++all_begun_;
  bool let_in = all_begun_ % period_ == 0;
  if (file.state == State::kUnknown || file.state == State::kMayStay) ++seen_;
  if (file.state == State::kStays || file.state == State::kMayStay) ++came_back_;
  if (file.state == State::kGone && WasDroppedJustNow(file)) {
    ++too_early_;
    let_in = true;
  }
  file.state = let_in ? State::kStays : State::kPassing;
  let_in_ += let_in ? 1 : 0;
  if (pause_ > 0) --pause_;
  if (period_ > 1 && too_early_ > kWindow / 8 && too_early_ > begun_ / 8) return Pause();
  // What the kernel drops today is asked for within the next epoch. Letting more in has to wait
  // until it would show.
  if (begun_ >= (period_ == 1 ? kWindow : std::max(kWindow, seen_ / 8))) Look();
}

void PageAdmission::Pause() {
  // Programs take their time with a file, or follow each other: dropping costs more than it gains.
  period_ = 1;
  pause_ = next_pause_;
  next_pause_ *= 2;
  StartOver();
}

void PageAdmission::Look() {
  if (period_ == 1) {
    suspicious_ = pause_ == 0 && came_back_ > kWindow / 2;
  } else if (came_back_ * 32 < let_in_) {
    // With full memory, one has to leave for each that is let in.
    period_ /= 2;
  } else if (came_back_ * 4 > let_in_) {
    period_ = kLongestPeriod;
  }
  StartOver();
}

void PageAdmission::Confirm(bool memory_is_short) {
  if (!suspicious_) return;
  suspicious_ = false;
  if (memory_is_short) period_ = kLongestPeriod;
  StartOver();
}

void PageAdmission::StartOver() { begun_ = let_in_ = came_back_ = too_early_ = 0; }

}  // namespace paddleop::fuse
