#include "base/backoff.h"

#include <gtest/gtest.h>

#include "base/testing/manual_clock.h"

namespace paddleop {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, GrowsToItsMaximumWithinTheJitter) {
  testing::ManualClock clock;
  clock.set_auto_advance(true);
  Backoff backoff({.initial = 100ms, .maximum = 1s, .factor = 2, .jitter = 0.1}, clock);
  Clock::Duration expected = 100ms;
  for (int i = 0; i < 8; ++i) {
    const auto before = clock.Now();
    ASSERT_TRUE(backoff.Sleep(Context::Background()));
    const auto slept = clock.Now() - before;
    EXPECT_GE(slept, expected * 9 / 10);
    EXPECT_LE(slept, expected * 11 / 10);
    expected = std::min<Clock::Duration>(expected * 2, 1s);
  }
}

TEST(Backoff, StopsWithTheCallerTheDeadlineAndTheAttempts) {
  std::stop_source source;
  source.request_stop();
  Backoff stopped({});
  EXPECT_FALSE(stopped.Sleep(Context::Background().WithStop(source.get_token())));

  Backoff late({.initial = 1h, .maximum = 1h});
  EXPECT_FALSE(late.Sleep(Context::Background().WithTimeout(1ms)));

  testing::ManualClock clock;
  clock.set_auto_advance(true);
  Backoff few({.max_attempts = 2}, clock);
  EXPECT_TRUE(few.Sleep(Context::Background()));
  EXPECT_TRUE(few.Sleep(Context::Background()));
  EXPECT_FALSE(few.Sleep(Context::Background()));
}

}  // namespace
}  // namespace paddleop
