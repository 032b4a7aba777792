#include "standalone/apiserver/patch.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr char kStrategic[] = "application/strategic-merge-patch+json";

class PatchTest : public ::testing::Test {
 protected:
  static const SchemaSet& Schemas() {
    static const SchemaSet set;
    return set;
  }
  // The pod's spec after a strategic patch of it.
  static Json Spec(const char* before, const char* patch) {
    const Kind& pods = CoreKind("Pod");
    const Json pod = {{"spec", Json::parse(before)}};
    const auto out = ApplyPatch(pods, Schemas().Of(pods), pod, kStrategic,
                                std::string(R"({"spec":)") + patch + "}");
    EXPECT_TRUE(out) << out.error().message;
    return out ? (*out)["spec"] : Json();
  }
};

TEST_F(PatchTest, ListsWithAKeyMergeByIt) {
  EXPECT_EQ(
      Spec(R"({"containers":[{"name":"a","image":"1"},{"name":"b","image":"1"}]})",
           R"({"containers":[{"name":"b","image":"2"},{"name":"c","image":"3"}]})"),
      Json::parse(
          R"({"containers":[{"name":"a","image":"1"},{"name":"b","image":"2"},{"name":"c","image":"3"}]})"));
}

TEST_F(PatchTest, AnItemIsDeletedByDirective) {
  EXPECT_EQ(Spec(R"({"containers":[{"name":"a"},{"name":"b"}]})",
                 R"({"containers":[{"name":"a","$patch":"delete"}]})"),
            Json::parse(R"({"containers":[{"name":"b"}]})"));
}

TEST_F(PatchTest, ElementsComeInTheGivenOrder) {
  EXPECT_EQ(
      Spec(
          R"({"containers":[{"name":"a"},{"name":"b"}]})",
          R"({"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"a","image":"2"}]})"),
      Json::parse(R"({"containers":[{"name":"b"},{"name":"a","image":"2"}]})"));
}

TEST_F(PatchTest, RetainedKeysReplaceAVolumesSource) {
  EXPECT_EQ(
      Spec(
          R"({"volumes":[{"name":"v","emptyDir":{}}]})",
          R"({"volumes":[{"name":"v","$retainKeys":["name","hostPath"],"hostPath":{"path":"/x"}}]})"),
      Json::parse(R"({"volumes":[{"name":"v","hostPath":{"path":"/x"}}]})"));
}

TEST_F(PatchTest, PlainListsAreReplacedAndNullRemoves) {
  EXPECT_EQ(Spec(R"({"containers":[{"name":"a","command":["x","y"]}],"nodeName":"n"})",
                 R"({"containers":[{"name":"a","command":["z"]}],"nodeName":null})"),
            Json::parse(R"({"containers":[{"name":"a","command":["z"]}]})"));
}

TEST_F(PatchTest, ListsOfWordsGrowAndShrink) {
  const Kind& pods = CoreKind("Pod");
  const Json pod = Json::parse(R"({"metadata":{"finalizers":["a/b"]}})");
  auto out = ApplyPatch(pods, Schemas().Of(pods), pod, kStrategic,
                        R"({"metadata":{"finalizers":["c/d"]}})");
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)["metadata"]["finalizers"], Json({"a/b", "c/d"}));
  out = ApplyPatch(pods, Schemas().Of(pods), *out, kStrategic,
                   R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["a/b"]}})");
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)["metadata"]["finalizers"], Json::array({"c/d"}));
}

TEST_F(PatchTest, WhatCannotBePatchedHasItsCode) {
  const Kind& pods = CoreKind("Pod");
  const Kind& jobs = *FindKind("batch.paddlepaddle.org", "v1", "paddlejobs");
  const auto code = [&](const Kind& kind, const char* type, const char* patch) {
    const auto out = ApplyPatch(kind, Schemas().Of(kind), Json::object(), type, patch);
    return out ? 200 : out.error().code;
  };
  EXPECT_EQ(code(pods, "application/apply-patch+yaml", "{}"), 415);
  EXPECT_EQ(code(pods, "text/plain", "{}"), 415);
  EXPECT_EQ(code(jobs, kStrategic, "{}"), 415);
  EXPECT_EQ(code(pods, "application/merge-patch+json", "{"), 400);
  EXPECT_EQ(code(pods, "application/merge-patch+json", "[]"), 400);
  EXPECT_EQ(code(pods, "application/json-patch+json", "{}"), 400);
  EXPECT_EQ(code(pods, "application/json-patch+json", R"([{"op":"fly","path":"/a"}])"), 400);
  EXPECT_EQ(code(pods, "application/json-patch+json", R"([{"op":"remove","path":"/a"}])"), 422);
  EXPECT_EQ(code(pods, "application/json-patch+json", R"([{"op":"test","path":"","value":1}])"),
            422);
  EXPECT_EQ(code(pods, kStrategic, R"({"spec":{"containers":[{"image":"x"}]}})"), 400);
}

}  // namespace
}  // namespace paddleop::standalone::apiserver
