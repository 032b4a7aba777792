#include "kube/wire/request.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::kube {
namespace {

TEST(Requests, AddressCoreGroupsAndClusterScope) {
  EXPECT_EQ(GetRequest(kPods, {"n", "a"}).target, "/api/v1/namespaces/n/pods/a");
  EXPECT_EQ(GetRequest(kLeases, {"n", "a"}).target,
            "/apis/coordination.k8s.io/v1/namespaces/n/leases/a");
  EXPECT_EQ(GetRequest(kNodes, {"", "a"}).target, "/api/v1/nodes/a");
  EXPECT_EQ(ListRequest(kPods, "", {}).target, "/api/v1/pods");
  // A name never becomes a path.
  EXPECT_EQ(GetRequest(kPods, {"n", "../x?y"}).target, "/api/v1/namespaces/n/pods/..%2Fx%3Fy");
}

TEST(Requests, ListsAndWatchesCarryTheirOptions) {
  EXPECT_EQ(ListRequest(kPods, "n",
                        {.label_selector = "a=b,c in (d,e)",
                         .field_selector = "spec.nodeName=x",
                         .limit = 500,
                         .continue_token = "t=="})
                .target,
            "/api/v1/namespaces/n/pods?labelSelector=a%3Db%2Cc%20in%20%28d%2Ce%29"
            "&fieldSelector=spec.nodeName%3Dx&limit=500&continue=t%3D%3D");
  WatchOptions options;
  options.resource_version = "5";
  options.timeout = std::chrono::seconds(60);
  EXPECT_EQ(WatchRequest(kPods, "", options).target,
            "/api/v1/pods?watch=true&resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds=60");
}

TEST(Requests, WritesSayWhatTheyAre) {
  const WireRequest create = CreateRequest(kConfigMaps, "n", "{}");
  EXPECT_EQ(create.method, "POST");
  EXPECT_EQ(create.target, "/api/v1/namespaces/n/configmaps");
  auto patch = PatchRequest(kPods, {"n", "a"}, MergePatch("{}", "status"));
  ASSERT_OK(patch);
  EXPECT_EQ(patch->method, "PATCH");
  EXPECT_EQ(patch->target, "/api/v1/namespaces/n/pods/a/status");
  EXPECT_EQ(patch->content_type, "application/merge-patch+json");
  EXPECT_EQ(patch->what, "patch pods n/a");
}

TEST(Requests, DeletionsCarryPreconditions) {
  DeleteOptions options;
  options.propagation = Propagation::kForeground;
  options.grace_period = std::chrono::seconds(0);
  options.preconditions = {.uid = "u", .resource_version = "7"};
  EXPECT_EQ(DeleteRequest(kPods, {"n", "a"}, options).body,
            R"({"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground",)"
            R"("gracePeriodSeconds":0,"preconditions":{"uid":"u","resourceVersion":"7"}})");
}

}  // namespace
TEST(Requests, CreateASubresourceOfAnObject) {
  const WireRequest request =
      CreateSubresourceRequest(kPods, {"default", "a"}, "binding", R"({"kind":"Binding"})");
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/api/v1/namespaces/default/pods/a/binding");
  EXPECT_EQ(request.what, "create pods default/a/binding");
}

}  // namespace paddleop::kube
