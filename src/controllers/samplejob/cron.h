// When a schedule fires: the five fields of cron, in a time zone.
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>

#include "api/meta/time.h"
#include "base/status.h"

namespace paddleop::controllers::samplejob {

// A parsed schedule: minute, hour, day of the month, month, day of the week; lists, ranges, steps
// and names, and @hourly, @daily (@midnight), @weekly, @monthly, @yearly (@annually). Where both
// days are restricted, either is enough. A value; thread-safe.
//
// Times of day that a change to summer time leaves out do not fire that day; those that come twice
// fire once, the first time. A schedule that names every hour or every minute goes by elapsed time
// instead, so nothing is left out or doubled.
class Cron {
 public:
  // kInvalid names the field that is wrong and what it may hold; also for an unknown time zone.
  // An empty zone is UTC.
  static Result<Cron> Parse(std::string_view schedule, std::string_view time_zone);

  // The first time after `after`, to the minute, or nullopt if there is none within five years
  // (February 30th).
  std::optional<api::Time> Next(api::Time after) const;

 private:
  struct Fields {
    std::bitset<60> minutes;
    std::bitset<24> hours;
    std::bitset<32> days;
    std::bitset<13> months;
    std::bitset<7> weekdays;
    bool any_day = false;
    bool any_weekday = false;
    bool any_hour = false;
  };
  static Result<Fields> ParseFields(std::string_view schedule);

  Fields fields_;
  std::string zone_;
};

}  // namespace paddleop::controllers::samplejob
