#include "base/status.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return Fail(Code::kInvalid, "{} is odd", x);
  return x / 2;
}

Result<int> Quarter(int x) {
  ASSIGN_OR_RETURN(int half, Half(x));
  return Half(half);
}

Result<void> CheckEven(int x) {
  RETURN_IF_ERROR(Half(x));
  return {};
}

TEST(Status, PassesValuesAndErrorsOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_CODE(Quarter(6), Code::kInvalid);
  EXPECT_OK(CheckEven(2));
  EXPECT_CODE(CheckEven(3), Code::kInvalid);
}

TEST(Status, WrapKeepsTheCodeAndTellsBothStories) {
  Status inner(Code::kUnavailable, "connection refused");
  Status outer = inner.Wrap("load setting");
  EXPECT_EQ(outer.code(), Code::kUnavailable);
  EXPECT_EQ(outer.message(), "load setting: connection refused");
  EXPECT_EQ(outer.ToString(), "Unavailable: load setting: connection refused");
  ASSERT_NE(outer.cause(), nullptr);
  EXPECT_EQ(outer.cause()->message(), "connection refused");
  EXPECT_FALSE(outer.maybe_done());
}

TEST(Status, WrapKeepsThatItMayHaveHappened) {
  const Status lost = Status(Code::kUnavailable, "no answer").MarkMaybeDone();
  EXPECT_TRUE(lost.maybe_done());
  EXPECT_TRUE(lost.Wrap("rename").maybe_done());
}

}  // namespace
}  // namespace paddleop
