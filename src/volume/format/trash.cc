#include "volume/format/trash.h"

#include <ctime>

namespace paddleop::volume {

std::string TrashHourName(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour);
}

std::optional<std::chrono::system_clock::time_point> ParseTrashHour(std::string_view name) {
  std::tm utc{};
  const std::string text(name);
  const char* end = strptime(text.c_str(), "%Y-%m-%d-%H", &utc);
  if (end == nullptr || *end != '\0' || text.size() != 13) return std::nullopt;
  return std::chrono::system_clock::from_time_t(timegm(&utc));
}

std::string TrashEntryName(Ino parent, Ino ino, std::string_view name) {
  std::string entry = fmt::format("{}-{}-{}", ToInt(parent), ToInt(ino), name);
  if (entry.size() > kMaxName) entry.resize(kMaxName);
  return entry;
}

}  // namespace paddleop::volume
