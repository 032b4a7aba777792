#include "api/meta/object_meta.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

TEST(ObjectMeta, ReadsWhatControllersNeedAndDropsTheBulk) {
  const auto json = ParseJson(R"({
    "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2,
    "creationTimestamp": "2024-02-29T12:34:56Z", "deletionTimestamp": null,
    "labels": {"l": "1"},
    "annotations": {"x": "y", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    "managedFields": [{"manager": "kubectl"}],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "nu"},
                        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pu", "controller": true}],
    "finalizers": ["f"]})");
  ASSERT_OK(json);
  const auto meta = ObjectMetaFromJson(*json);
  ASSERT_OK(meta);
  EXPECT_EQ(meta->Key().ToString(), "ns/a");
  EXPECT_EQ(meta->generation, 2);
  EXPECT_FALSE(meta->Deleting());
  EXPECT_TRUE(meta->HasFinalizer("f"));
  EXPECT_FALSE(meta->HasFinalizer("g"));
  EXPECT_EQ(meta->annotations, (StringMap{{"x", "y"}}));
  EXPECT_EQ(meta->Label("l"), "1");
  EXPECT_EQ(meta->Label("absent"), "");
  ASSERT_NE(meta->Controller(), nullptr);
  EXPECT_EQ(meta->Controller()->uid, "pu");
}

TEST(ObjectMeta, NamesTheFieldOfAWrongType) {
  const auto meta = ObjectMetaFromJson(Json{{"name", "a"}, {"labels", {{"x", Json::array()}}}});
  ASSERT_CODE(meta, Code::kInvalid);
  EXPECT_EQ(meta.error().message(), "metadata.labels.x: expected string, found array");
}

ObjectMeta Named(std::string name, std::string uid) {
  ObjectMeta meta;
  meta.name = std::move(name);
  meta.uid = std::move(uid);
  return meta;
}

TEST(ObjectMeta, WritesOnlyWhatIsSet) {
  ObjectMeta meta;
  meta.name = "a";
  meta.owner_references.push_back(ControllerOf(
      {"batch.paddlepaddle.org", "v1", "paddlejobs", "PaddleJob", true}, Named("j", "u")));
  EXPECT_EQ(
      DumpJson(ToJson(meta)),
      R"({"name":"a","ownerReferences":[{"apiVersion":"batch.paddlepaddle.org/v1","blockOwnerDeletion":true,)"
      R"("controller":true,"kind":"PaddleJob","name":"j","uid":"u"}]})");
}

}  // namespace
}  // namespace paddleop::api
