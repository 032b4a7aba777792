#include "controllers/samplejob/cron.h"

#include <date/tz.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <vector>

namespace paddleop::controllers::samplejob {
namespace {

constexpr std::array<std::string_view, 12> kMonthNames = {"jan", "feb", "mar", "apr", "may", "jun",
                                                          "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kDayNames = {"sun", "mon", "tue", "wed",
                                                       "thu", "fri", "sat"};

struct Field {
  std::string_view name;
  int least;
  int most;
};
constexpr Field kMinute{"minute", 0, 59};
constexpr Field kHour{"hour", 0, 23};
constexpr Field kDay{"day of the month", 1, 31};
constexpr Field kMonth{"month", 1, 12};
constexpr Field kWeekday{"day of the week", 0, 7};  // 7 is Sunday too

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto begin = text.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) break;
    const auto end = std::min(text.find_first_of(" \t", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    at = end;
  }
  return words;
}

std::optional<int> Number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int> Value(std::string_view text, const Field& field) {
  if (auto number = Number(text)) return number;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto find = [&](auto& names, int first) -> std::optional<int> {
    const auto it = std::find(names.begin(), names.end(), lower);
    if (it == names.end()) return std::nullopt;
    return static_cast<int>(it - names.begin()) + first;
  };
  if (field.name == kMonth.name) return find(kMonthNames, 1);
  if (field.name == kWeekday.name) return find(kDayNames, 0);
  return std::nullopt;
}

// Sets the bits of one comma-separated part of a field: "*", "5", "1-5", "*/15", "10-40/10", "7/5".
template <std::size_t kSize>
bool AddPart(std::string_view part, const Field& field, std::bitset<kSize>& bits) {
  const auto pieces = Split(part, '/');
  if (pieces.size() > 2) return false;
  int step = 1;
  if (pieces.size() == 2) {
    const auto parsed = Number(pieces[1]);
    if (!parsed || *parsed < 1) return false;
    step = *parsed;
  }
  int first = field.least;
  int last = field.most;
  if (pieces[0] != "*" && pieces[0] != "?") {
    const auto ends = Split(pieces[0], '-');
    const auto from = Value(ends[0], field);
    if (ends.size() > 2 || !from) return false;
    first = *from;
    last = pieces.size() == 2 ? field.most : first;
    if (ends.size() == 2) {
      const auto to = Value(ends[1], field);
      if (!to) return false;
      last = *to;
    }
  } else if (field.name == kWeekday.name) {
    last = 6;
  }
  if (first < field.least || last > field.most || first > last) return false;
  for (int i = first; i <= last; i += step) bits.set(static_cast<std::size_t>(i) % kSize);
  return true;
}

template <std::size_t kSize>
Result<void> ParseField(std::string_view text, const Field& field, std::bitset<kSize>& bits) {
  for (const std::string_view part : Split(text, ',')) {
    if (AddPart(part, field, bits)) continue;
    return Fail(Code::kInvalid,
                "{} \"{}\": expected *, a value or range from {} to {}, with an optional /step, or "
                "a list of these",
                field.name, text, field.least, field.most);
  }
  return {};
}

std::string_view Shorthand(std::string_view schedule) {
  if (schedule == "@hourly") return "0 * * * *";
  if (schedule == "@daily" || schedule == "@midnight") return "0 0 * * *";
  if (schedule == "@weekly") return "0 0 * * 0";
  if (schedule == "@monthly") return "0 0 1 * *";
  if (schedule == "@yearly" || schedule == "@annually") return "0 0 1 1 *";
  return schedule;
}

// The library throws when it does not know a zone.
const date::time_zone* FindZone(const std::string& name) {
  try {
    return date::locate_zone(name);
  } catch (const std::exception&) {
    return nullptr;
  }
}

bool IsAny(std::string_view field) { return field.starts_with('*') || field == "?"; }

}  // namespace

Result<Cron::Fields> Cron::ParseFields(std::string_view schedule) {
  if (schedule.find("TZ=") != std::string_view::npos) {
    return Fail(Code::kInvalid, "the time zone goes into spec.timeZone, not into the schedule");
  }
  const auto words = Words(Shorthand(schedule));
  if (words.size() != 5) {
    return Fail(
        Code::kInvalid,
        "\"{}\" has {} fields; expected five: minute, hour, day of the month, month, day of "
        "the week, or one of @hourly, @daily, @weekly, @monthly, @yearly",
        schedule, words.size());
  }
  Fields fields;
  RETURN_IF_ERROR(ParseField(words[0], kMinute, fields.minutes));
  RETURN_IF_ERROR(ParseField(words[1], kHour, fields.hours));
  RETURN_IF_ERROR(ParseField(words[2], kDay, fields.days));
  RETURN_IF_ERROR(ParseField(words[3], kMonth, fields.months));
  RETURN_IF_ERROR(ParseField(words[4], kWeekday, fields.weekdays));
  fields.any_day = IsAny(words[2]);
  fields.any_weekday = IsAny(words[4]);
  fields.any_hour = IsAny(words[1]);
  return fields;
}

Result<Cron> Cron::Parse(std::string_view schedule, std::string_view time_zone) {
  Cron cron;
  ASSIGN_OR_RETURN(cron.fields_, ParseFields(schedule));
  cron.zone_ = time_zone.empty() ? "UTC" : std::string(time_zone);
  // "Local" and relative names would mean whatever the manager's machine means by them.
  if (cron.zone_ == "Local" || cron.zone_.find("..") != std::string::npos ||
      cron.zone_.starts_with('/') || FindZone(cron.zone_) == nullptr) {
    return Fail(Code::kInvalid,
                "time zone \"{}\" is not in the database; use a name like "
                "Asia/Shanghai or Etc/UTC",
                time_zone);
  }
  return cron;
}

std::optional<api::Time> Cron::Next(api::Time after) const {
  using std::chrono::hours;
  using std::chrono::minutes;
  const date::time_zone* zone = FindZone(zone_);
  if (zone == nullptr) return std::nullopt;
  const auto offset_at = [&](api::Time time) {
    return zone->get_info(date::sys_seconds(time.time_since_epoch())).offset;
  };
  const api::Time last = after + hours(24 * 366 * 5);
  api::Time at = std::chrono::floor<minutes>(after) + minutes(1);
  while (at <= last) {
    const auto offset = offset_at(at);
    const auto local = date::local_seconds(at.time_since_epoch() + offset);
    const auto day = date::floor<date::days>(local);
    const date::year_month_day ymd{day};
    const auto of_day = local - date::local_seconds(day);
    const auto month = static_cast<unsigned>(ymd.month());
    const auto mday = static_cast<unsigned>(ymd.day());
    const unsigned wday = date::weekday{day}.c_encoding();
    const auto hour = static_cast<std::size_t>(std::chrono::duration_cast<hours>(of_day).count());
    const auto minute =
        static_cast<std::size_t>(std::chrono::duration_cast<minutes>(of_day).count() % 60);
    const bool day_fits = fields_.any_day || fields_.any_weekday
                              ? fields_.days.test(mday) && fields_.weekdays.test(wday)
                              : fields_.days.test(mday) || fields_.weekdays.test(wday);
    if (!fields_.months.test(month) || !day_fits) {
      // To the next local midnight, or an hour at a time around a change of the clock.
      const auto rest = std::chrono::duration_cast<std::chrono::seconds>(hours(24) - of_day);
      const api::Time midnight = at + rest;
      at = offset_at(midnight) == offset ? midnight : at + minutes(60 - static_cast<int>(minute));
      continue;
    }
    if (!fields_.hours.test(hour)) {
      at += minutes(60 - static_cast<int>(minute));
      continue;
    }
    if (!fields_.minutes.test(minute)) {
      at += minutes(1);
      continue;
    }
    // The second time the same hour comes by on the night the clock goes back.
    const bool repeated = !fields_.any_hour && offset_at(at - hours(1)) > offset &&
                          offset_at(at - (offset_at(at - hours(1)) - offset)) > offset;
    if (!repeated) return at;
    at += minutes(1);
  }
  return std::nullopt;
}

}  // namespace paddleop::controllers::samplejob
