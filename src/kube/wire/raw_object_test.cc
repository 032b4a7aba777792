#include "kube/wire/raw_object.h"

#include <gmock/gmock.h>

#include "base/testing/matchers.h"

namespace paddleop::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

constexpr char kPod[] = R"({"kind":"Pod","apiVersion":"v1","metadata":{
  "name":"a","namespace":"n","uid":"u-1","resourceVersion":"17","generation":3,
  "labels":{"app":"x","role":"worker"},
  "ownerReferences":[{"apiVersion":"b/v1","kind":"Job","name":"j","uid":"o-1","controller":true},
                     {"apiVersion":"b/v1","kind":"Set","name":"s","uid":"o-2"}],
  "finalizers":["f/1","f/2"],
  "managedFields":[{"manager":"k","fieldsV1":{"f:a":{"]":"\"}"}}}],
  "deletionTimestamp":"2026-01-01T00:00:00Z"},
 "spec":{"unknown":{"deep":[1,2.5,"ü"]}}})";

TEST(ParseObject, ReadsWhatEveryKindHas) {
  auto object = ParseObject(kPod);
  ASSERT_OK(object);
  EXPECT_EQ(object->kind, "Pod");
  EXPECT_EQ(object->api_version, "v1");
  EXPECT_EQ(object->key().ToString(), "n/a");
  EXPECT_EQ(object->uid, "u-1");
  EXPECT_EQ(object->resource_version, "17");
  EXPECT_EQ(object->generation, 3);
  EXPECT_TRUE(object->deleting);
  EXPECT_THAT(object->labels, ElementsAre(Pair("app", "x"), Pair("role", "worker")));
  EXPECT_EQ(object->Label("role"), "worker");
  EXPECT_FALSE(object->Label("none"));
  ASSERT_EQ(object->owners.size(), 2u);
  ASSERT_NE(object->Controller(), nullptr);
  EXPECT_EQ(object->Controller()->uid, "o-1");
  EXPECT_THAT(object->finalizers, ElementsAre("f/1", "f/2"));
}

TEST(ParseObject, LosesNothingButManagedFields) {
  auto object = ParseObject(kPod);
  ASSERT_OK(object);
  EXPECT_THAT(object->json, Not(HasSubstr("managedFields")));
  EXPECT_THAT(object->json, Not(HasSubstr("fieldsV1")));
  EXPECT_THAT(object->json, HasSubstr(R"("spec":{"unknown":{"deep":[1,2.5,"ü"]}})"));
  EXPECT_THAT(object->json, HasSubstr("deletionTimestamp"));
  EXPECT_OK(ParseObject(object->json)) << object->json;
}

TEST(ParseObject, DropsManagedFieldsWhereverTheyStand) {
  for (const char* metadata :
       {R"({"managedFields":[],"name":"a"})", R"({"name":"a","managedFields":[{"a":[]}]})",
        R"({"managedFields":[1] , "name":"a"})", R"({"name":"a" , "managedFields" : [ ] })"}) {
    auto object = ParseObject(std::string(R"({"metadata":)") + metadata + "}");
    ASSERT_OK(object) << metadata;
    EXPECT_THAT(object->json, Not(HasSubstr("managed")));
    EXPECT_EQ(object->name, "a");
    auto again = ParseObject(object->json);
    ASSERT_OK(again) << object->json;
    EXPECT_EQ(again->name, "a");
  }
  auto alone = ParseObject(R"({"metadata":{"managedFields":[]}})");
  ASSERT_OK(alone);
  EXPECT_EQ(alone->json, R"({"metadata":{}})");
}

TEST(ParseObject, NullsCountAsAbsent) {
  auto object = ParseObject(
      R"({"metadata":{"name":"a","labels":null,"ownerReferences":null,"finalizers":null,
          "managedFields":null,"deletionTimestamp":null}})");
  ASSERT_OK(object);
  EXPECT_FALSE(object->deleting);
  EXPECT_TRUE(object->labels.empty());
}

TEST(ParseObject, RefusesWhatIsNoObject) {
  for (const char* bad : {"", "x", "[]", "null", "1", R"({"metadata":[]})",
                          R"({"metadata":{"name":1}})", R"({"metadata":{"labels":{"a":1}}})",
                          R"({"metadata":{"generation":"x"}})", R"({"metadata":)"})
    EXPECT_CODE(ParseObject(bad), Code::kInvalid) << bad;
}

TEST(ParseList, CompletesItemsAndKeepsOrder) {
  auto page = ParseList(R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9",
    "continue":"tok","remainingItemCount":3},
    "items":[{"metadata":{"name":"a","managedFields":[{}]},"spec":{"x":1}},{"metadata":{"name":"b"}},{}]})");
  ASSERT_OK(page);
  EXPECT_EQ(page->resource_version, "9");
  EXPECT_EQ(page->continue_token, "tok");
  ASSERT_EQ(page->items.size(), 3u);
  EXPECT_EQ(page->items[0].kind, "Pod");
  EXPECT_EQ(page->items[0].json,
            R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"x":1}})");
  EXPECT_EQ(page->items[1].name, "b");
  EXPECT_EQ(page->items[2].json, R"({"apiVersion":"v1","kind":"Pod"})");
}

TEST(ParseList, AnEmptyListHasNoItems) {
  auto page = ParseList(R"({"kind":"PodList","apiVersion":"v1","metadata":{},"items":null})");
  ASSERT_OK(page);
  EXPECT_TRUE(page->items.empty());
}

TEST(ParseList, RefusesBadItems) {
  EXPECT_CODE(ParseList(R"({"items":[1]})"), Code::kInvalid);
  EXPECT_CODE(ParseList(R"({"items":[{"metadata":{"name":7}}]})"), Code::kInvalid);
  EXPECT_CODE(ParseList(R"({"items":{}})"), Code::kInvalid);
  EXPECT_CODE(ParseList("<html>"), Code::kInvalid);
}

TEST(LaterVersion, ComparesNumbersAndNothingElse) {
  EXPECT_TRUE(LaterVersion("10", "9"));
  EXPECT_FALSE(LaterVersion("9", "10"));
  EXPECT_FALSE(LaterVersion("9", "9"));
  EXPECT_FALSE(LaterVersion("x", "1"));
  EXPECT_FALSE(LaterVersion("5", ""));
}

}  // namespace
}  // namespace paddleop::kube
