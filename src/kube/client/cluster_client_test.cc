// The contract on the fake cluster; tests/integration runs it on a real API server.
#include "kube/testing/cluster_client_contract.h"
#include "kube/testing/failing_cluster.h"
#include "kube/testing/fake_cluster.h"

namespace paddleop::kube::testing {
namespace {

class FakeContractCluster final : public ContractCluster {
 public:
  ClusterClient& client() override { return cluster_; }
  std::string ns() override { return "n"; }

 private:
  FakeCluster cluster_;
};

INSTANTIATE_TEST_SUITE_P(Fake, ClusterClientContract,
                         ::testing::Values(+[]() -> std::unique_ptr<ContractCluster> {
                           return std::make_unique<FakeContractCluster>();
                         }));

TEST(FakeCluster, CollectsWhatHasNoOwnerAnyMore) {
  FakeCluster cluster;
  const Context ctx = Context::Background();
  const auto owner = cluster.Create(ctx, kConfigMaps, "n", ConfigMapJson("owner"));
  ASSERT_OK(owner);
  const auto child = cluster.Create(
      ctx, kPods, "n",
      PodJson("child",
              fmt::format(R"("ownerReferences":[{{"uid":"{}","controller":true}}])", owner->uid)));
  ASSERT_OK(child);
  ASSERT_NE(child->Controller(), nullptr);
  EXPECT_EQ(child->Controller()->uid, owner->uid);
  EXPECT_EQ(cluster.CollectGarbage(), 0u);
  ASSERT_OK(cluster.Delete(ctx, kConfigMaps, {"n", "owner"}));
  EXPECT_EQ(cluster.CollectGarbage(), 1u);
  EXPECT_EQ(cluster.size(kPods), 0u);
}

TEST(FakeCluster, ForgottenHistoryIsExpired) {
  FakeCluster cluster;
  const Context ctx = Context::Background();
  for (const char* name : {"a", "b", "c"})
    ASSERT_OK(cluster.Create(ctx, kConfigMaps, "n", ConfigMapJson(name)));
  const auto page = cluster.List(ctx, kConfigMaps, "n", {.limit = 1});
  ASSERT_OK(page);
  cluster.Compact();
  EXPECT_CODE(
      cluster.List(ctx, kConfigMaps, "n", {.limit = 1, .continue_token = page->continue_token}),
      Code::kExpired);
  EXPECT_CODE(cluster.Watch(ctx, kConfigMaps, "n", {.resource_version = page->resource_version},
                            [](const WatchEvent&) -> Result<void> { return {}; }),
              Code::kExpired);
}

TEST(FailingCluster, FailsAsPlannedAndALostReplyIsStillDone) {
  FakeCluster inner;
  FailingCluster cluster(inner);
  const Context ctx = Context::Background();
  cluster.FailNext("create", Fault::kServerError);
  cluster.FailNext("create", Fault::kLostReply);
  EXPECT_CODE(cluster.Create(ctx, kConfigMaps, "n", ConfigMapJson("a")), Code::kUnavailable);
  EXPECT_EQ(inner.size(kConfigMaps), 0u);
  EXPECT_CODE(cluster.Create(ctx, kConfigMaps, "n", ConfigMapJson("a")), Code::kUnavailable);
  EXPECT_EQ(inner.size(kConfigMaps), 1u);
  EXPECT_CODE(cluster.Create(ctx, kConfigMaps, "n", ConfigMapJson("a")), Code::kAlreadyExists);
  EXPECT_EQ(cluster.failed(), 2u);
}

}  // namespace
}  // namespace paddleop::kube::testing
