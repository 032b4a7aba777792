#include "api/meta/time.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

TEST(Time, FormatsAsTheApiDoes) {
  EXPECT_EQ(FormatTime(Time(std::chrono::seconds(0))), "1970-01-01T00:00:00Z");
  EXPECT_EQ(FormatTime(Time(std::chrono::seconds(1'709'210'096))), "2024-02-29T12:34:56Z");
  EXPECT_EQ(
      FormatMicroTime(std::chrono::system_clock::time_point(std::chrono::microseconds(1'500'000))),
      "1970-01-01T00:00:01.500000Z");
}

TEST(Time, ReadsWhatItWrites) {
  for (const std::int64_t seconds : {0LL, 951'827'696LL, 1'709'210'096LL, 4'102'444'800LL}) {
    const Time time{std::chrono::seconds(seconds)};
    const auto back = ParseTime(FormatTime(time));
    ASSERT_OK(back);
    EXPECT_EQ(*back, time);
  }
}

TEST(Time, ReadsOffsetsAndFractions) {
  const auto offset = ParseTime("2024-02-29T14:34:56.999+02:00");
  ASSERT_OK(offset);
  EXPECT_EQ(FormatTime(*offset), "2024-02-29T12:34:56Z");
  const auto micro = ParseMicroTime("1970-01-01T00:00:01.25Z");
  ASSERT_OK(micro);
  EXPECT_EQ(FormatMicroTime(*micro), "1970-01-01T00:00:01.250000Z");
}

TEST(Time, RefusesEverythingElse) {
  for (const char* text :
       {"", "now", "2024-02-30T00:00:00Z", "2024-02-29T24:00:00Z", "2024-02-29T12:34:56",
        "2024-02-29T12:34:56.Z", "2024-02-29T12:34:56Zx", "2024-02-29T12:34:56+2:00"}) {
    EXPECT_CODE(ParseTime(text), Code::kInvalid) << text;
  }
}

}  // namespace
}  // namespace paddleop::api
