#include "api/meta/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

TEST(ParseJson, SaysWhatIsWrong) {
  EXPECT_OK(ParseJson(R"({"a": [1, 2.5, null]})"));
  EXPECT_CODE(ParseJson("{"), Code::kInvalid);
  EXPECT_CODE(ParseJson(""), Code::kInvalid);
  EXPECT_CODE(ParseJson(std::string(100'000, '[')), Code::kInvalid);
}

TEST(DumpJson, NeverThrowsOnBadText) { EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xef\xbf\xbd\""); }

TEST(ToYaml, WritesBlocks) {
  const Json value = {{"kind", "Pod"},
                      {"list", {1, {{"a", "b"}, {"c", Json::array()}}}},
                      {"empty", Json::object()}};
  EXPECT_EQ(ToYaml(value),
            "empty: {}\n"
            "kind: Pod\n"
            "list:\n"
            "- 1\n"
            "- a: b\n"
            "  c: []\n");
}

TEST(ToYaml, QuotesWhatCouldBeReadAsSomethingElse) {
  for (const char* text :
       {"", "yes", "No", "null", "1", "1e3", "a: b", "# x", "- x", "*", "0x1", " a", "a\nb"}) {
    const std::string yaml = ToYaml(Json(text));
    EXPECT_EQ(yaml.front(), '"') << text;
  }
  EXPECT_EQ(ToYaml(Json("batch.paddlepaddle.org/v1")), "batch.paddlepaddle.org/v1\n");
}

}  // namespace
}  // namespace paddleop::api
