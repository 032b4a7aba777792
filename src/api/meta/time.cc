#include "api/meta/time.h"

#include <charconv>
#include <cstdlib>

namespace paddleop::api {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::hh_mm_ss;
using std::chrono::microseconds;
using std::chrono::system_clock;
using std::chrono::year_month_day;

std::string FormatSeconds(Time time) {
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

// Reads exactly `digits` decimal digits at `pos` and moves past them; -1 if they are not there.
int Digits(std::string_view text, std::size_t& pos, std::size_t digits) {
  if (pos + digits > text.size()) return -1;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const char c = text[pos + i];
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  pos += digits;
  return value;
}

bool Skip(std::string_view text, std::size_t& pos, std::string_view any_of) {
  if (pos >= text.size() || any_of.find(text[pos]) == std::string_view::npos) return false;
  ++pos;
  return true;
}

// The fraction in microseconds; further digits are cut. -1 if malformed.
int Fraction(std::string_view text, std::size_t& pos) {
  if (!Skip(text, pos, ".,")) return 0;
  int micros = 0;
  int digits = 0;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    if (digits++ < 6) micros = micros * 10 + (text[pos] - '0');
    ++pos;
  }
  if (digits == 0) return -1;
  for (; digits < 6; ++digits) micros *= 10;
  return micros;
}

}  // namespace

std::string FormatTime(Time time) { return FormatSeconds(time) + "Z"; }

std::string FormatMicroTime(system_clock::time_point time) {
  const auto seconds = floor<std::chrono::seconds>(time);
  const auto micros = std::chrono::duration_cast<microseconds>(time - seconds);
  return fmt::format("{}.{:06}Z", FormatSeconds(seconds), micros.count());
}

Result<system_clock::time_point> ParseMicroTime(std::string_view text) {
  const auto bad = [&] { return Fail(Code::kInvalid, "\"{}\" is not an RFC 3339 time", text); };
  std::size_t pos = 0;
  const int year = Digits(text, pos, 4);
  if (year < 0 || !Skip(text, pos, "-")) return bad();
  const int month = Digits(text, pos, 2);
  if (month < 0 || !Skip(text, pos, "-")) return bad();
  const int day = Digits(text, pos, 2);
  if (day < 0 || !Skip(text, pos, "Tt ")) return bad();
  const int hour = Digits(text, pos, 2);
  if (hour < 0 || hour > 23 || !Skip(text, pos, ":")) return bad();
  const int minute = Digits(text, pos, 2);
  if (minute < 0 || minute > 59 || !Skip(text, pos, ":")) return bad();
  const int second = Digits(text, pos, 2);
  if (second < 0 || second > 60) return bad();
  const int micros = Fraction(text, pos);
  if (micros < 0) return bad();

  const year_month_day date(std::chrono::year(year),
                            std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok()) return bad();

  int offset_minutes = 0;
  if (!Skip(text, pos, "Zz")) {
    if (pos >= text.size()) return bad();
    const char sign = text[pos];
    if (!Skip(text, pos, "+-")) return bad();
    const int offset_hour = Digits(text, pos, 2);
    if (offset_hour < 0 || offset_hour > 23 || !Skip(text, pos, ":")) return bad();
    const int offset_minute = Digits(text, pos, 2);
    if (offset_minute < 0 || offset_minute > 59) return bad();
    offset_minutes = (offset_hour * 60 + offset_minute) * (sign == '-' ? -1 : 1);
  }
  if (pos != text.size()) return bad();
  return std::chrono::sys_days(date) + std::chrono::hours(hour) +
         std::chrono::minutes(minute - offset_minutes) + std::chrono::seconds(second) +
         microseconds(micros);
}

Result<Time> ParseTime(std::string_view text) {
  ASSIGN_OR_RETURN(const auto time, ParseMicroTime(text));
  return floor<std::chrono::seconds>(time);
}

}  // namespace paddleop::api
