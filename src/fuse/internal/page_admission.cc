#include "fuse/internal/page_admission.h"

#include <algorithm>

namespace paddleop::fuse {
namespace {

// What the kernel drops today is asked for within the next epoch. Letting more in has to wait until
// it would show.
std::size_t LooksApart(std::size_t files) { return std::max(PageAdmission::kWindow, files / 8); }

}  // namespace

void PageAdmission::Begin(std::size_t file) {
  State& state = states_[file];
  if (state == State::kStays) ++came_back_;
  state = ++turn_ % period_ == 0 ? State::kStays : State::kPassing;
  ++begun_;
  if (pause_ > 0) --pause_;
  if (begun_ >= (period_ == 1 ? kWindow : LooksApart(states_.size())) ||
      read_further_ > kWindow / 8) {
    Look();
  }
}

void PageAdmission::Continue(std::size_t file) {
  if (states_[file] != State::kGone) return;
  ++read_further_;
  states_[file] = State::kPassing;
}

bool PageAdmission::End(std::size_t file) {
  if (states_[file] != State::kPassing) return false;
  states_[file] = State::kGone;
  return true;
}

void PageAdmission::Look() {
  if (period_ == 1) {
    suspicious_ = pause_ == 0 && came_back_ > kWindow / 2;
  } else if (read_further_ > kWindow / 8) {
    // Programs take their time with a file: dropping costs more than it gains.
    period_ = 1;
    pause_ = next_pause_;
    next_pause_ *= 2;
  } else {
    // With full memory, one has to leave for each that is let in.
    const std::size_t let_in = begun_ / period_;
    if (came_back_ * 32 < let_in) {
      period_ /= 2;
    } else if (came_back_ * 4 > let_in) {
      period_ = kLongestPeriod;
    }
  }
  StartOver();
}

void PageAdmission::Confirm(bool memory_is_short) {
  if (!suspicious_) return;
  suspicious_ = false;
  if (memory_is_short) period_ = kLongestPeriod;
  StartOver();
}

void PageAdmission::StartOver() { begun_ = came_back_ = read_further_ = 0; }

}  // namespace paddleop::fuse
