#include "base/context.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "base/testing/matchers.h"

namespace paddleop {
namespace {

using namespace std::chrono_literals;

TEST(Context, AChildsDeadlineNeverExceedsItsParents) {
  Context parent = Context::Background().WithTimeout(1s);
  EXPECT_EQ(parent.WithTimeout(1h).deadline(), parent.deadline());
  EXPECT_LT(parent.WithTimeout(1ms).deadline(), parent.deadline());
}

TEST(Context, CheckTellsWhyTheCallerLeft) {
  std::stop_source source;
  Context ctx = Context::Background().WithStop(source.get_token());
  EXPECT_OK(ctx.Check());
  EXPECT_CODE(ctx.WithTimeout(-1s).Check(), Code::kDeadline);
  source.request_stop();
  EXPECT_CODE(ctx.Check(), Code::kCancelled);
}

TEST(Context, RemainingIsBounded) {
  EXPECT_EQ(Context::Background().Remaining(5s), 5s);
  EXPECT_EQ(Context::Background().WithTimeout(-1s).Remaining(5s), 0s);
}

TEST(Context, FieldsAddUp) {
  Context ctx = Context::Background().WithField("a", "1").WithField("b", "2");
  EXPECT_EQ(ctx.fields(), (LogFields{{"a", "1"}, {"b", "2"}}));
}

TEST(Clock, SleepEndsWhenTheCallerStops) {
  std::stop_source source;
  Context ctx = Context::Background().WithStop(source.get_token());
  std::jthread stopper([&] { source.request_stop(); });
  EXPECT_FALSE(Clock::System().SleepFor(ctx, 1h));
}

TEST(Clock, SleepPastTheDeadlineIsRefusedAtOnce) {
  Context ctx = Context::Background().WithTimeout(10ms);
  EXPECT_FALSE(Clock::System().SleepFor(ctx, 1h));
}

}  // namespace
}  // namespace paddleop
