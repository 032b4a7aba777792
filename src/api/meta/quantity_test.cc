#include "api/meta/quantity.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

TEST(Quantity, PrintsTheCanonicalForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"0", "0"},           {"100m", "100m"},       {"1", "1"},        {"1000m", "1"},
      {"1.5", "1500m"},     {"0.5Gi", "512Mi"},     {"1024Ki", "1Mi"}, {"10Pi", "10Pi"},
      {"1000", "1k"},       {"1e3", "1k"},          {"3E6", "3M"},     {"-5", "-5"},
      {"1500Mi", "1500Mi"}, {"0.0000000001", "1n"}, {"1.5Ki", "1536"}};
  for (const auto& [text, printed] : cases) {
    const auto quantity = Quantity::Parse(text);
    ASSERT_OK(quantity) << text;
    EXPECT_EQ(quantity->ToString(), printed) << text;
  }
}

TEST(Quantity, RefusesNonsense) {
  for (const char* text :
       {"", "m", "1x", "1.2.3", "Ki", "1e", "1e99", "99999999999999999999", "1 ", "0x10"}) {
    EXPECT_CODE(Quantity::Parse(text), Code::kInvalid) << text;
  }
}

TEST(Quantity, AddsAndMultiplies) {
  Quantity sum;
  EXPECT_TRUE(sum.Add(*Quantity::Parse("1Gi")));
  EXPECT_TRUE(sum.Add(*Quantity::Parse("512Mi")));
  EXPECT_EQ(sum.ToString(), "1536Mi");
  EXPECT_TRUE(sum.Multiply(4));
  EXPECT_EQ(sum.ToString(), "6Gi");
  EXPECT_FALSE(sum.Multiply(INT64_MAX));
  EXPECT_EQ(sum.ToString(), "6Gi");
  EXPECT_EQ(Quantity::Parse("1500m")->ToInteger(), 2);
}

}  // namespace
}  // namespace paddleop::api
