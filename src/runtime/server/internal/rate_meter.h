#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "runtime/protocol/job.h"

namespace paddleop::runtime::internal {

// How fast a counter has grown over the last ten seconds. Not thread-safe.
class RateMeter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  void Add(TimePoint now, std::int64_t count) {
    if (!samples_.empty() &&
        (count < samples_.back().second || now - samples_.back().first > 2 * kWindow)) {
      samples_.clear();  // begun anew, or after a long silence
    }
    if (samples_.size() > 1 && now - samples_[samples_.size() - 2].first < kStep) {
      samples_.back() = {now, count};
    } else {
      samples_.emplace_back(now, count);
    }
    while (samples_.size() > 2 && now - samples_.front().first > kWindow) samples_.pop_front();
  }

  double PerSecond() const {
    if (samples_.size() < 2) return 0;
    const double seconds =
        std::chrono::duration<double>(samples_.back().first - samples_.front().first).count();
    if (seconds <= 0) return 0;
    return static_cast<double>(samples_.back().second - samples_.front().second) / seconds;
  }

 private:
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr std::chrono::milliseconds kStep{500};
  std::deque<std::pair<TimePoint, std::int64_t>> samples_;
};

// At the present rate; nullopt while there is none or nothing is known of the total.
inline std::optional<std::int64_t> TimeLeft(const JobProgress& progress) {
  const api::ProgressCount& bytes = progress.bytes;
  const std::int64_t left = bytes.total - bytes.done - bytes.skipped - bytes.failed;
  if (progress.bytes_per_second < 1 || bytes.total <= 0) return std::nullopt;
  return left <= 0
             ? 0
             : static_cast<std::int64_t>(static_cast<double>(left) / progress.bytes_per_second);
}

}  // namespace paddleop::runtime::internal
