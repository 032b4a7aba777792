#include "controllers/common/secrets.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"
#include "kube/testing/fake_cluster.h"

namespace paddleop::controllers {
namespace {

TEST(Secrets, C28_AreUsedFromAnotherNamespaceOnlyIfTheySaySo) {
  kube::testing::FakeCluster cluster;
  const Context ctx = Context::Background();
  ASSERT_OK(cluster.Create(ctx, api::SecretObject::kType, "a",
                           R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"own"},
                               "data":{"access-key":"QUsK"}})"));
  ASSERT_OK(cluster.Create(
      ctx, api::SecretObject::kType, "b",
      R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"shared","annotations":{
          "paddlepaddle.org/shared-with":"x, a"}}})"));
  ASSERT_OK(cluster.Create(ctx, api::SecretObject::kType, "b",
                           R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"private"}})"));
  const auto state = [&](std::string name, std::string ns) {
    auto view = ReadSecret(ctx, cluster, api::SecretReference{std::move(name), std::move(ns)}, "a");
    EXPECT_OK(view);
    return view ? view->state : SecretView::State::kNone;
  };
  EXPECT_EQ(state("own", ""), SecretView::State::kFound);
  EXPECT_EQ(state("own", "a"), SecretView::State::kFound);
  EXPECT_EQ(state("shared", "b"), SecretView::State::kFound);
  EXPECT_EQ(state("private", "b"), SecretView::State::kRefused);
  EXPECT_EQ(state("none", ""), SecretView::State::kMissing);
  auto own = ReadSecret(ctx, cluster, api::SecretReference{"own", ""}, "a");
  ASSERT_OK(own);
  EXPECT_EQ(own->secret->Value("access-key").Reveal(), "AK") << "values are trimmed";
  auto refused = ReadSecret(ctx, cluster, api::SecretReference{"private", "b"}, "a");
  ASSERT_OK(refused);
  EXPECT_NE(refused->Problem("spec.secretRef").find("paddlepaddle.org/shared-with"),
            std::string::npos);
}

}  // namespace
}  // namespace paddleop::controllers
