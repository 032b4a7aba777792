#include "kube/wire/selector.h"

#include <gtest/gtest.h>

#include <map>

#include "base/testing/matchers.h"

namespace paddleop::kube {
namespace {

bool Matches(std::string_view text, const std::map<std::string, std::string, std::less<>>& labels) {
  const auto selector = Selector::Parse(text);
  EXPECT_OK(selector);
  return selector && selector->Matches([&](std::string_view name) -> std::optional<std::string> {
    const auto found = labels.find(name);
    return found == labels.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Selector, UnderstandsEveryForm) {
  EXPECT_TRUE(Matches("", {}));
  EXPECT_TRUE(Matches("a=b", {{"a", "b"}}));
  EXPECT_TRUE(Matches("a==b", {{"a", "b"}}));
  EXPECT_FALSE(Matches("a=b", {{"a", "c"}}));
  EXPECT_FALSE(Matches("a=b", {}));
  EXPECT_TRUE(Matches("a!=b", {}));
  EXPECT_FALSE(Matches("a!=b", {{"a", "b"}}));
  EXPECT_TRUE(Matches("a in (x, y)", {{"a", "y"}}));
  EXPECT_FALSE(Matches("a in (x,y)", {{"a", "z"}}));
  EXPECT_TRUE(Matches("a notin (x)", {}));
  EXPECT_TRUE(Matches("a", {{"a", ""}}));
  EXPECT_TRUE(Matches("!a", {}));
  EXPECT_TRUE(Matches("a=b , c in (d,e),!f", {{"a", "b"}, {"c", "e"}}));
  EXPECT_FALSE(Matches("a=b,c=d", {{"a", "b"}}));
}

TEST(Selector, RefusesNonsense) {
  for (const char* bad : {"=b", "a b", "a in x)", "a on (x)", "!", "a=b,,c=d", "a=b=c"})
    EXPECT_CODE(Selector::Parse(bad), Code::kInvalid) << bad;
}

}  // namespace
}  // namespace paddleop::kube
