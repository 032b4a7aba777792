#include "standalone/node/builtin/stateful_set.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"

namespace paddleop::standalone::node {
namespace {

using Json = nlohmann::json;

StatefulSetSpec Set(int replicas, const std::string& policy, const std::string& image = "one") {
  const Json json = {
      {"metadata", {{"name", "web"}, {"namespace", "n"}, {"uid", "u"}, {"generation", 3}}},
      {"spec",
       {{"replicas", replicas},
        {"serviceName", "svc"},
        {"podManagementPolicy", policy},
        {"template",
         {{"metadata", {{"labels", {{"app", "web"}}}}},
          {"spec", {{"containers", {{{"name", "c"}, {"image", image}}}}}}}},
        {"volumeClaimTemplates", {{{"metadata", {{"name", "data"}}}, {"spec", Json::object()}}}}}}};
  auto set = StatefulSetSpec::Parse(json.dump());
  EXPECT_OK(set);
  return *set;
}

std::shared_ptr<PodSpec> Pod(const StatefulSetSpec& set, int ordinal, bool ready) {
  auto pod = std::make_shared<PodSpec>();
  pod->metadata.name = "web-" + std::to_string(ordinal);
  pod->metadata.labels = {{"controller-revision-hash", set.revision}};
  pod->ready = ready;
  pod->phase = "Running";
  return pod;
}

std::vector<std::string> Names(const std::vector<std::string>& objects) {
  std::vector<std::string> out;
  out.reserve(objects.size());
  for (const std::string& object : objects) out.push_back(Json::parse(object)["metadata"]["name"]);
  return out;
}

TEST(StatefulSet, InOrderOneAfterTheOther) {
  const auto set = Set(3, "OrderedReady");
  auto plan = DecideStatefulSet(set, {});
  ASSERT_OK(plan);
  EXPECT_EQ(Names(plan->create_pods), (std::vector<std::string>{"web-0"}));
  EXPECT_EQ(Names(plan->create_claims), (std::vector<std::string>{"data-web-0"}));
  const Json pod = Json::parse(plan->create_pods[0]);
  EXPECT_EQ(pod["spec"]["hostname"], "web-0");
  EXPECT_EQ(pod["spec"]["subdomain"], "svc");
  EXPECT_EQ(pod["metadata"]["labels"]["app"], "web");
  EXPECT_EQ(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "0");
  EXPECT_EQ(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-web-0");
  plan = DecideStatefulSet(set, {Pod(set, 0, false)});
  EXPECT_TRUE(plan->create_pods.empty());
  plan = DecideStatefulSet(set, {Pod(set, 0, true)});
  EXPECT_EQ(Names(plan->create_pods), (std::vector<std::string>{"web-1"}));
}

TEST(StatefulSet, InParallelAllAtOnce) {
  const auto set = Set(3, "Parallel");
  auto plan = DecideStatefulSet(set, {Pod(set, 1, false)});
  ASSERT_OK(plan);
  EXPECT_EQ(Names(plan->create_pods), (std::vector<std::string>{"web-0", "web-2"}));
  plan = DecideStatefulSet(Set(1, "Parallel"),
                           {Pod(set, 0, true), Pod(set, 1, true), Pod(set, 2, true)});
  EXPECT_EQ(plan->delete_pods, (std::vector<std::string>{"web-2", "web-1"}));
}

TEST(StatefulSet, ReplacesFailedAndOutdatedPods) {
  const auto set = Set(2, "Parallel");
  auto failed = Pod(set, 1, false);
  failed->phase = "Failed";
  auto plan = DecideStatefulSet(set, {Pod(set, 0, true), failed});
  EXPECT_EQ(plan->delete_pods, (std::vector<std::string>{"web-1"}));
  const auto next = Set(2, "Parallel", "two");
  EXPECT_NE(next.revision, set.revision);
  plan = DecideStatefulSet(next, {Pod(set, 0, true), Pod(set, 1, true)});
  EXPECT_EQ(plan->delete_pods, (std::vector<std::string>{"web-1"}));
  plan = DecideStatefulSet(next, {Pod(set, 0, true), Pod(next, 1, false)});
  EXPECT_TRUE(plan->delete_pods.empty()) << "the new one must be ready first";
  plan = DecideStatefulSet(next, {Pod(set, 0, true), Pod(next, 1, true)});
  EXPECT_EQ(plan->delete_pods, (std::vector<std::string>{"web-0"}));
}

TEST(StatefulSet, CountsInItsStatus) {
  const auto set = Set(2, "Parallel");
  const auto plan = DecideStatefulSet(set, {Pod(set, 0, true), Pod(set, 1, false)});
  const Json status = Json::parse(plan->status);
  EXPECT_EQ(status["replicas"], 2);
  EXPECT_EQ(status["readyReplicas"], 1);
  EXPECT_EQ(status["updatedReplicas"], 2);
  EXPECT_EQ(status["observedGeneration"], 3);
  EXPECT_EQ(status["updateRevision"], set.revision);
}

}  // namespace
}  // namespace paddleop::standalone::node
