#include "controllers/common/child.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paddleop::controllers {
namespace {

TEST(Child, KnowsItsOwner) {
  api::ObjectMeta owner;
  owner.name = "j";
  owner.ns = "n";
  owner.uid = "u";
  const api::ResourceType type{"batch.paddlepaddle.org", "v1", "paddlejobs", "PaddleJob", true};
  const auto json = ChildMetadata(type, owner, "c", {{"a", "b"}});
  EXPECT_EQ(json["namespace"], "n");
  EXPECT_EQ(json["labels"]["a"], "b");
  const auto meta = api::ObjectMetaFromJson(json);
  ASSERT_TRUE(meta.has_value());
  EXPECT_TRUE(IsControlledBy(*meta, owner));
  owner.uid = "other";
  EXPECT_FALSE(IsControlledBy(*meta, owner)) << "a new object of the same name is another owner";
  EXPECT_FALSE(IsControlledBy(api::ObjectMeta(), owner));
}

TEST(JoinNames, StopsAtSomePoint) {
  EXPECT_EQ(JoinNames({"a", "b"}), "a, b");
  EXPECT_EQ(JoinNames({"a", "b", "c"}, 1), "a and 2 more");
  EXPECT_EQ(JoinNames({}), "");
}

}  // namespace
}  // namespace paddleop::controllers
