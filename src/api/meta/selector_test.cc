#include "api/meta/selector.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

Result<LabelSelector> Read(const char* text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  return LabelSelectorFromJson(json);
}

TEST(LabelSelector, MatchesAsTheApiServerDoes) {
  struct Case {
    const char* selector;
    StringMap labels;
    bool matches;
  };
  const Case cases[] = {
      {R"({})", {}, true},
      {R"({"matchLabels": {"a": "b"}})", {{"a", "b"}, {"c", "d"}}, true},
      {R"({"matchLabels": {"a": "b"}})", {{"a", "c"}}, false},
      {R"({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]})",
       {{"a", "c"}},
       true},
      {R"({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]})", {}, false},
      {R"({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]})", {}, true},
      {R"({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]})",
       {{"a", "b"}},
       false},
      {R"({"matchExpressions": [{"key": "a", "operator": "Exists"}]})", {{"a", ""}}, true},
      {R"({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]})", {{"a", ""}}, false},
  };
  for (const auto& c : cases) {
    const auto selector = Read(c.selector);
    ASSERT_OK(selector) << c.selector;
    EXPECT_EQ(selector->Matches(c.labels), c.matches) << c.selector;
  }
}

TEST(LabelSelector, PrintsTheQueryForm) {
  const auto selector = Read(R"({"matchLabels": {"a": "b"}, "matchExpressions": [
    {"key": "c", "operator": "NotIn", "values": ["d", "e"]}, {"key": "f", "operator": "Exists"},
    {"key": "g", "operator": "DoesNotExist"}]})");
  ASSERT_OK(selector);
  EXPECT_EQ(selector->ToQuery(), "a=b,c notin (d,e),f,!g");
}

TEST(LabelSelector, RefusesUnknownOperators) {
  EXPECT_CODE(Read(R"({"matchExpressions": [{"key": "c", "operator": "Like"}]})"), Code::kInvalid);
  EXPECT_CODE(Read(R"({"matchLabels": []})"), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::api
