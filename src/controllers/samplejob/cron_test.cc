#include "controllers/samplejob/cron.h"

#include <gtest/gtest.h>

#include <random>

#include "base/testing/matchers.h"

namespace paddleop::controllers::samplejob {
namespace {

api::Time At(std::string_view text) {
  auto time = api::ParseTime(text);
  EXPECT_TRUE(time.has_value()) << text;
  return time ? *time : api::Time();
}

// The first `n` times after `after`, in UTC.
std::vector<std::string> Times(std::string_view schedule, std::string_view zone,
                               std::string_view after, int n) {
  auto cron = Cron::Parse(schedule, zone);
  EXPECT_OK(cron);
  std::vector<std::string> times;
  api::Time at = At(after);
  for (int i = 0; cron && i < n; ++i) {
    const auto next = cron->Next(at);
    if (!next) break;
    times.push_back(api::FormatTime(*next));
    at = *next;
  }
  return times;
}

using Strings = std::vector<std::string>;

TEST(Cron, FiresWhenItsFieldsSay) {
  EXPECT_EQ(Times("*/15 * * * *", "", "2026-01-01T00:00:30Z", 3),
            (Strings{"2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z", "2026-01-01T00:45:00Z"}));
  EXPECT_EQ(Times("30 2 * * 1-5", "", "2026-01-02T03:00:00Z", 2),
            (Strings{"2026-01-05T02:30:00Z", "2026-01-06T02:30:00Z"}));
  EXPECT_EQ(Times("0 0 29 feb *", "", "2026-01-01T00:00:00Z", 1), Strings{"2028-02-29T00:00:00Z"});
  EXPECT_EQ(Times("0 12 13 * fri", "", "2026-01-01T00:00:00Z", 3),
            (Strings{"2026-01-02T12:00:00Z", "2026-01-09T12:00:00Z", "2026-01-13T12:00:00Z"}))
      << "either day is enough";
  EXPECT_EQ(Times("5/20 1,3 * * 7", "", "2026-01-01T00:00:00Z", 4),
            (Strings{"2026-01-04T01:05:00Z", "2026-01-04T01:25:00Z", "2026-01-04T01:45:00Z",
                     "2026-01-04T03:05:00Z"}));
  EXPECT_EQ(Times("@weekly", "", "2026-01-01T00:00:00Z", 1), Strings{"2026-01-04T00:00:00Z"});
  EXPECT_EQ(Times("0 0 30 2 *", "", "2026-01-01T00:00:00Z", 1), Strings{}) << "never";
}

TEST(Cron, GoesByItsTimeZone) {
  EXPECT_EQ(Times("0 8 * * *", "Asia/Shanghai", "2026-01-01T00:00:00Z", 2),
            (Strings{"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"}));
  EXPECT_EQ(Times("0 0 1 * *", "Asia/Shanghai", "2026-01-15T00:00:00Z", 1),
            Strings{"2026-01-31T16:00:00Z"});
}

TEST(Cron, ClockChangesNeitherDoubleNorInvent) {
  // Berlin, 29 March 2026: 02:00 becomes 03:00. 25 October: 03:00 becomes 02:00.
  EXPECT_EQ(Times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 1),
            Strings{"2026-03-30T00:30:00Z"});
  EXPECT_EQ(Times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
            (Strings{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}));
  EXPECT_EQ(Times("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 3),
            (Strings{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"}));
}

TEST(Cron, SaysWhatIsWrong) {
  const auto message = [](std::string_view schedule, std::string_view zone = "") {
    auto cron = Cron::Parse(schedule, zone);
    EXPECT_CODE(cron, Code::kInvalid);
    return cron ? "" : cron.error().message();
  };
  EXPECT_NE(message("61 * * * *").find("minute \"61\""), std::string::npos);
  EXPECT_NE(message("* 5-2 * * *").find("hour"), std::string::npos);
  EXPECT_NE(message("* * 0 * *").find("day of the month"), std::string::npos);
  EXPECT_NE(message("* * * foo *").find("month"), std::string::npos);
  EXPECT_NE(message("* * * * mon-").find("day of the week"), std::string::npos);
  EXPECT_NE(message("*/0 * * * *").find("minute"), std::string::npos);
  EXPECT_NE(message("* * * *").find("4 fields"), std::string::npos);
  EXPECT_NE(message("").find("0 fields"), std::string::npos);
  EXPECT_NE(message("TZ=UTC * * * * *").find("spec.timeZone"), std::string::npos);
  EXPECT_NE(message("* * * * *", "Mars/Olympus").find("Mars/Olympus"), std::string::npos);
  EXPECT_NE(message("* * * * *", "../../etc/passwd").find("time zone"), std::string::npos);
}

// Whatever the schedule: times grow, lie on minutes, and parsing never fails in another way.
TEST(Cron, RandomTextsAreReadOrRefused) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr std::string_view kLetters = "0123456789*/-,  monfeb@?";
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    const std::size_t size = random() % 24;
    for (std::size_t j = 0; j < size; ++j) text += kLetters[random() % kLetters.size()];
    auto cron = Cron::Parse(text, "");
    if (!cron) {
      EXPECT_CODE(cron, Code::kInvalid);
      continue;
    }
    const auto after = At("2026-05-05T05:05:05Z");
    if (const auto next = cron->Next(after)) {
      EXPECT_GT(*next, after);
      EXPECT_EQ(next->time_since_epoch().count() % 60, 0);
    }
  }
}

}  // namespace
}  // namespace paddleop::controllers::samplejob
