#include "redis/reply.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::redis {
namespace {

TEST(ReplyTest, IsSmall) { EXPECT_LE(sizeof(Reply), 40U); }

TEST(ReplyTest, KnowsItsType) {
  EXPECT_EQ(Reply().type(), Reply::Type::kNil);
  EXPECT_EQ(Reply::OfStatus("OK").type(), Reply::Type::kStatus);
  EXPECT_EQ(Reply::OfError("ERR").type(), Reply::Type::kError);
  EXPECT_EQ(Reply::OfInteger(1).type(), Reply::Type::kInteger);
  EXPECT_EQ(Reply::OfString("x").type(), Reply::Type::kString);
  EXPECT_EQ(Reply::OfArray({}).type(), Reply::Type::kArray);
}

TEST(ReplyTest, ReadsTextAndElements) {
  EXPECT_EQ(Reply::OfStatus("OK").text(), "OK");
  EXPECT_EQ(Reply::OfError("ERR x").text(), "ERR x");
  EXPECT_EQ(Reply::OfInteger(1).text(), "");
  EXPECT_TRUE(Reply::OfString("x").elements().empty());
  const Reply array = Reply::OfArray({Reply::OfInteger(1), Reply()});
  ASSERT_EQ(array.elements().size(), 2U);
  EXPECT_TRUE(array.elements()[1].is_nil());
  EXPECT_EQ(Reply::OfString("taken").TakeText(), "taken");
  EXPECT_EQ(Reply(array).TakeElements().size(), 2U);
}

TEST(ReplyTest, ReadsNumbers) {
  EXPECT_EQ(*Reply::OfInteger(-7).ToInteger(), -7);
  EXPECT_EQ(*Reply::OfString("9223372036854775807").ToInteger(), INT64_MAX);
  EXPECT_CODE(Reply::OfString("9223372036854775808").ToInteger(), Code::kCorrupt);
  EXPECT_CODE(Reply::OfString("12x").ToInteger(), Code::kCorrupt);
  EXPECT_CODE(Reply::OfString("").ToInteger(), Code::kCorrupt);
  EXPECT_CODE(Reply::OfArray({}).ToInteger(), Code::kCorrupt);
  EXPECT_CODE(Reply().ToInteger(), Code::kNotFound);
}

TEST(ReplyTest, ReadsStrings) {
  EXPECT_EQ(*Reply::OfString("x").ToText(), "x");
  EXPECT_CODE(Reply().ToText(), Code::kNotFound);
  EXPECT_CODE(Reply::OfInteger(1).ToText(), Code::kCorrupt);
  EXPECT_CODE(Reply::OfError("ERR x").ToText(), Code::kCorrupt);
}

}  // namespace
}  // namespace paddleop::redis
