#include "kube/client/apply.h"

#include <gmock/gmock.h>

#include "base/testing/matchers.h"
#include "kube/testing/failing_cluster.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/objects.h"

namespace paddleop::kube {
namespace {

using testing::ConfigMapJson;
using testing::FailingCluster;
using testing::FakeCluster;
using testing::Fault;

TEST(Apply, AFinalizerIsRemovedThroughConflictsAndFaultsAreTold) {
  FakeCluster inner;
  FailingCluster cluster(inner);
  const Context ctx = Context::Background();
  const auto made =
      inner.Create(ctx, kConfigMaps, "n", ConfigMapJson("a", "1", R"("finalizers":["x/a","x/b"])"));
  ASSERT_OK(made);
  cluster.FailNext("patch", Fault::kConflict, 2);
  ASSERT_OK(RemoveFinalizer(ctx, cluster, kConfigMaps, *made, "x/b"));
  auto left = inner.Get(ctx, kConfigMaps, {"n", "a"});
  ASSERT_OK(left);
  EXPECT_THAT(left->finalizers, ::testing::ElementsAre("x/a"));
  cluster.FailNext("patch", Fault::kServerError);
  EXPECT_CODE(RemoveFinalizer(ctx, cluster, kConfigMaps, *made, "x/a"), Code::kUnavailable);
}

TEST(Apply, AFinalizerOfAnotherObjectWithTheSameNameIsLeftAlone) {
  FakeCluster cluster;
  const Context ctx = Context::Background();
  const auto old =
      cluster.Create(ctx, kConfigMaps, "n", ConfigMapJson("a", "1", R"("finalizers":["x/a"])"));
  ASSERT_OK(old);
  ASSERT_OK(RemoveFinalizer(ctx, cluster, kConfigMaps, *old, "x/a"));
  ASSERT_OK(cluster.Delete(ctx, kConfigMaps, {"n", "a"}));
  ASSERT_OK(
      cluster.Create(ctx, kConfigMaps, "n", ConfigMapJson("a", "1", R"("finalizers":["x/a"])")));
  ASSERT_OK(RemoveFinalizer(ctx, cluster, kConfigMaps, *old, "x/a"));
  const auto now = cluster.Get(ctx, kConfigMaps, {"n", "a"});
  ASSERT_OK(now);
  EXPECT_EQ(now->finalizers.size(), 1u);
}

}  // namespace
}  // namespace paddleop::kube
