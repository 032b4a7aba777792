#include "volume/object/internal/times.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>

namespace paddleop::volume::object::internal {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::seconds;

struct Parts {
  std::chrono::year_month_day date;
  std::chrono::hh_mm_ss<seconds> time;
};

Parts Split(WallTime time) {
  const auto day = floor<days>(time);
  return {std::chrono::year_month_day(day),
          std::chrono::hh_mm_ss<seconds>(floor<seconds>(time - day))};
}

// Takes `width` digits from the front of `text`.
std::optional<int> TakeNumber(std::string_view& text, std::size_t width) {
  if (text.size() < width) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(0, width)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(width);
  return value;
}

bool Take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

std::optional<WallTime> Join(int year, int month, int day, int hour, int minute, int second) {
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         seconds(second);
}

// "hh:mm:ss" from the front of `text`.
struct TimeOfDay {
  int hour, minute, second;
};
std::optional<TimeOfDay> TakeTime(std::string_view& text) {
  const auto hour = TakeNumber(text, 2);
  if (!hour || !Take(text, ":")) return std::nullopt;
  const auto minute = TakeNumber(text, 2);
  if (!minute || !Take(text, ":")) return std::nullopt;
  const auto second = TakeNumber(text, 2);
  if (!second) return std::nullopt;
  return TimeOfDay{*hour, *minute, *second};
}

}  // namespace

std::string BasicTime(WallTime time) {
  const Parts parts = Split(time);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", int(parts.date.year()),
                     unsigned(parts.date.month()), unsigned(parts.date.day()),
                     parts.time.hours().count(), parts.time.minutes().count(),
                     parts.time.seconds().count());
}

std::string IsoTime(WallTime time) {
  const Parts parts = Split(time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", int(parts.date.year()),
                     unsigned(parts.date.month()), unsigned(parts.date.day()),
                     parts.time.hours().count(), parts.time.minutes().count(),
                     parts.time.seconds().count());
}

std::optional<WallTime> ParseIsoTime(std::string_view text) {
  const auto year = TakeNumber(text, 4);
  if (!year || !Take(text, "-")) return std::nullopt;
  const auto month = TakeNumber(text, 2);
  if (!month || !Take(text, "-")) return std::nullopt;
  const auto day = TakeNumber(text, 2);
  if (!day || !Take(text, "T")) return std::nullopt;
  const auto time = TakeTime(text);
  if (!time) return std::nullopt;
  std::int64_t nanoseconds = 0;
  if (Take(text, ".")) {
    std::int64_t unit = 100'000'000;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
      nanoseconds += unit * (text.front() - '0');
      unit /= 10;
      text.remove_prefix(1);
    }
  }
  if (text != "Z") return std::nullopt;
  auto whole = Join(*year, *month, *day, time->hour, time->minute, time->second);
  if (!whole) return std::nullopt;
  return *whole + std::chrono::nanoseconds(nanoseconds);
}

std::optional<WallTime> ParseHttpTime(std::string_view text) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::size_t comma = text.find(", ");
  if (comma != 3) return std::nullopt;
  text.remove_prefix(comma + 2);
  const auto day = TakeNumber(text, 2);
  if (!day || !Take(text, " ")) return std::nullopt;
  int month = 0;
  for (std::size_t i = 0; i < kMonths.size(); ++i) {
    if (Take(text, kMonths[i])) {
      month = static_cast<int>(i) + 1;
      break;
    }
  }
  if (month == 0 || !Take(text, " ")) return std::nullopt;
  const auto year = TakeNumber(text, 4);
  if (!year || !Take(text, " ")) return std::nullopt;
  const auto time = TakeTime(text);
  if (!time || text != " GMT") return std::nullopt;
  return Join(*year, month, *day, time->hour, time->minute, time->second);
}

}  // namespace paddleop::volume::object::internal
