#include "volume/data/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"

namespace paddleop::volume::data {
namespace {

double Seconds(std::chrono::milliseconds time) {
  return std::max(0.001, static_cast<double>(time.count()) / 1000.0);
}

std::string ClockTime(std::chrono::seconds time) {
  const auto s = time.count();
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

double ImportProgress::files_per_second() const {
  return static_cast<double>(copied_files) / Seconds(elapsed);
}

double ImportProgress::bytes_per_second() const {
  return static_cast<double>(copied_bytes) / Seconds(elapsed);
}

double ImportProgress::percent() const {
  const std::uint64_t done_bytes = copied_bytes + skipped_bytes + failed_bytes;
  const auto share = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0
               ? 100.0
               : std::min(100.0, 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  };
  if (listed_files == 0) return listing ? 0.0 : 100.0;
  return listed_bytes > 0 ? share(done_bytes, listed_bytes) : share(done_files(), listed_files);
}

std::optional<std::chrono::seconds> ImportProgress::Remaining() const {
  if (listing || copied_files == 0) return std::nullopt;
  const double by_files =
      static_cast<double>(listed_files - std::min(listed_files, done_files())) / files_per_second();
  double left = by_files;
  if (copied_bytes > 0) {
    const std::uint64_t done = copied_bytes + skipped_bytes + failed_bytes;
    left = static_cast<double>(listed_bytes - std::min(listed_bytes, done)) / bytes_per_second();
  }
  return std::chrono::seconds(std::llround(left));
}

std::string ProgressLine(const ImportProgress& progress) {
  std::string line = fmt::format("{} of {}{} files, {} of {}", FormatCount(progress.done_files()),
                                 FormatCount(progress.listed_files), progress.listing ? "+" : "",
                                 FormatSize(progress.copied_bytes + progress.skipped_bytes),
                                 FormatSize(progress.listed_bytes));
  if (progress.skipped_files > 0) {
    line += fmt::format(" ({} there already)", FormatCount(progress.skipped_files));
  }
  if (progress.failed_files > 0) {
    line += fmt::format(", {} failed", FormatCount(progress.failed_files));
  }
  line += fmt::format(", {} files/s, {}/s",
                      FormatCount(static_cast<std::uint64_t>(progress.files_per_second())),
                      FormatSize(static_cast<std::uint64_t>(progress.bytes_per_second())));
  if (const auto left = progress.Remaining()) line += fmt::format(", {} left", ClockTime(*left));
  return line;
}

std::string ProgressBar(const ImportProgress& progress, std::size_t width) {
  constexpr std::size_t kBar = 20;
  const double percent = progress.percent();
  const auto filled = static_cast<std::size_t>(percent / 100.0 * kBar);
  std::string bar(filled, '=');
  if (filled < kBar) bar += '>';
  bar.resize(kBar, ' ');
  std::string line = fmt::format("[{}] {:.0f} % {}", bar, percent, ProgressLine(progress));
  if (line.size() > width) line.resize(width);
  return line;
}

}  // namespace paddleop::volume::data
