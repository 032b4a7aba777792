// One test for each defect of the operator that this one replaces (docs/paddlejob.md, "What
// changed"). The numbers are those of its list.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controllers/paddlejob/addresses.h"
#include "controllers/paddlejob/ports.h"
#include "controllers/paddlejob/testing/world.h"

namespace paddleop::controllers::paddlejob {
namespace {

using api::Json;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::EnvOf;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RoleJson;
using testing::World;

constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr std::string_view kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";

std::string WithSet(std::string_view worker, std::string_view ref_more = "",
                    std::string_view more = "") {
  return fmt::format(R"({{"sampleSetRef":{{"name":"s","mountPath":"/m"{}}},"worker":{}{}}})",
                     ref_more, worker, more);
}

TEST(Findings, J1HeterPodsSpeakPaddlesLanguage) {
  World world(fmt::format(
      R"({{"ps":{},"worker":{},"heter":{}}})", RoleJson(1), RoleJson(2),
      RoleJson(2, R"({"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":1}}}]})")));
  ASSERT_TRUE(world.BringUp());
  const auto pod = world.PodJson("j-heter-0");
  EXPECT_EQ(EnvOf(pod, "TRAINING_ROLE"), "HETER_TRAINER");
  EXPECT_EQ(EnvOf(pod, "STAGE_ID"), "2");
  EXPECT_EQ(EnvOf(pod, "HETER_DEVICE_TYPE"), "gpu");
  EXPECT_EQ(EnvOf(pod, "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST"), "#PADDLE_TRAINER_ENDPOINTS");
  const auto worker = world.PodJson("j-worker-0");
  EXPECT_EQ(EnvOf(worker, "STAGE_ID"), "1");
  EXPECT_EQ(EnvOf(worker, "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST"), "#PADDLE_HETER_ENDPOINTS");
  const auto& data = world.config_map()->data;
  EXPECT_EQ(data.at("PADDLE_HETER_TRAINER_IP_PORT_LIST"), data.at("PADDLE_HETER_ENDPOINTS"));
  EXPECT_EQ(data.at("PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST"), data.at("PADDLE_HETER_ENDPOINTS"));
  EXPECT_EQ(data.at("PADDLE_STAGE_TRAINERS_NUM"), "[2, 2]");
}

TEST(Findings, J2HostModeHasConsistentPortsAndNeedsNoAnnotation) {
  World world(
      fmt::format(R"({{"intranet":"Host","ps":{},"worker":{}}})", RoleJson(1), RoleJson(2)));
  world.Settle();
  ASSERT_TRUE(world.job().metadata.annotations.empty());
  world.PlaceAll();
  // The server and a worker share a node, hence an address.
  world.FindPod("j-worker-0")->node_name = world.FindPod("j-ps-0")->node_name;
  world.FindPod("j-worker-0")->pod_ip = world.FindPod("j-ps-0")->pod_ip;
  world.port_blocks = {35020, 35040};
  world.Settle();
  ASSERT_NE(world.config_map(), nullptr);
  const auto& data = world.config_map()->data;
  const std::string shared = world.FindPod("j-ps-0")->pod_ip;
  EXPECT_EQ(data.at("PADDLE_PSERVERS_IP_PORT_LIST"), shared + ":35020");
  EXPECT_EQ(data.at("PADDLE_TRAINER_ENDPOINTS"),
            shared + ":35040," + world.FindPod("j-worker-1")->pod_ip + ":35020");
  EXPECT_EQ(data.at("PADDLE_PORT.ps-0"), "35020");
  EXPECT_EQ(data.at("PADDLE_PORT.worker-0"), "35040");
  EXPECT_EQ(EnvOf(world.PodJson("j-worker-0"), "PADDLE_PORT"), "#PADDLE_PORT.worker-0");
  EXPECT_EQ(EnvOf(world.PodJson("j-worker-0"), "PADDLE_CURRENT_ENDPOINT"),
            "$(POD_IP):$(PADDLE_PORT)");
  EXPECT_EQ(world.PodJson("j-ps-0")["spec"]["hostNetwork"], true);
  EXPECT_EQ(world.job().metadata.Annotation("host-port"), "35020");
  EXPECT_EQ(StoredPortBlocks(world.job().metadata), (std::vector<int>{35020, 35040}));
}

TEST(Findings, J2WorkersOfACollectiveJobDoNotShareAHost) {
  World world(
      fmt::format(R"({{"intranet":"Host","worker":{}}})",
                  RoleJson(2, R"({"containers":[{"name":"c"}],"affinity":{"podAntiAffinity":{
    "requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}}})")));
  world.Settle();
  const auto pod = world.PodJson("j-worker-1");
  const auto& rules = pod["spec"]["affinity"]["podAntiAffinity"][std::string(kRequired)];
  ASSERT_EQ(rules.size(), 2u) << "the user's own stays";
  EXPECT_EQ(rules[1]["topologyKey"], "kubernetes.io/hostname");
  EXPECT_EQ(rules[1]["labelSelector"]["matchLabels"],
            (Json{{"paddlepaddle.org/job-name", "j"}, {"paddle-res-type", "worker"}}));
  EXPECT_EQ(pod["metadata"]["labels"]["paddlepaddle.org/job-name"], "j");
  World servers(
      fmt::format(R"({{"intranet":"Host","ps":{},"worker":{}}})", RoleJson(1), RoleJson(2)));
  servers.Settle();
  EXPECT_FALSE(servers.PodJson("j-worker-1")["spec"].contains("affinity"));
}

TEST(Findings, J3EverythingInServiceModeUsesOnePort) {
  World world(fmt::format(R"({{"intranet":"Service","withGloo":2,"ps":{},"worker":{}}})",
                          RoleJson(2), RoleJson(2)));
  ASSERT_TRUE(world.BringUp());
  const auto& data = world.config_map()->data;
  EXPECT_EQ(data.at("PADDLE_PORT"), "2379");
  EXPECT_EQ(data.at("PADDLE_PSERVERS_IP_PORT_LIST"), "j-ps-0:2379,j-ps-1:2379");
  EXPECT_EQ(data.at("PADDLE_GLOO_HTTP_ENDPOINT"), "j-ps-0:2397");
}

TEST(Findings, J4CacheAffinityIsAddedToEachOfTheUsersTerms) {
  World world(WithSet(RoleJson(1, R"({"containers":[{"name":"c"}],"affinity":{"nodeAffinity":{
    "requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
      {"matchExpressions":[{"key":"a","operator":"Exists"}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}}})")));
  world.SetSampleSet("Ready");
  world.AddCacheNode("n", "s-runtime-0");
  world.Settle();
  const auto pod = world.PodJson("j-worker-0");
  const auto& terms =
      pod["spec"]["affinity"]["nodeAffinity"][std::string(kRequired)]["nodeSelectorTerms"];
  ASSERT_EQ(terms.size(), 2u);
  const Json wish = {
      {"key", "paddlepaddle.org/juicefs-s"}, {"operator", "In"}, {"values", {"s-runtime-0"}}};
  EXPECT_EQ(terms[0]["matchExpressions"][0]["key"], "a");
  EXPECT_EQ(terms[0]["matchExpressions"][1], wish);
  EXPECT_EQ(terms[1]["matchExpressions"][0], wish);
  EXPECT_EQ(terms[1]["matchFields"].size(), 1u);
}

TEST(Findings, J5AFullOrDeadNodeDoesNotHoldAWorkerForEver) {
  World world(WithSet(RoleJson(2)));
  world.SetSampleSet("Ready");
  world.AddCacheNode("n0", "s-runtime-0");
  world.AddCacheNode("n1", "s-runtime-1", false);
  world.Settle();
  // The dead node is not required from the start.
  EXPECT_TRUE(world.PodJson("j-worker-1")["spec"]["affinity"]["nodeAffinity"].contains(
      std::string(kPreferred)));
  EXPECT_THAT(world.notes, Contains(Field(&ChangeNote::reason, "AffinityRelaxed")));
  // The full node is, for a while.
  EXPECT_TRUE(world.PodJson("j-worker-0")["spec"]["affinity"]["nodeAffinity"].contains(
      std::string(kRequired)));
  world.FindPod("j-worker-0")->unschedulable_since = world.now;
  EXPECT_EQ(world.Step().recheck, seconds(300));
  world.now += seconds(300);
  const std::string other = world.FindPod("j-worker-1")->metadata.uid;
  world.Settle();
  EXPECT_TRUE(world.PodJson("j-worker-0")["spec"]["affinity"]["nodeAffinity"].contains(
      std::string(kPreferred)));
  EXPECT_EQ(world.FindPod("j-worker-1")->metadata.uid, other);
  EXPECT_EQ(world.status().failures, 0);
  EXPECT_THAT(world.status().relaxed_workers, ElementsAre(0));
  ASSERT_TRUE(world.BringUp());
}

TEST(Findings, J6OnlyWorkersGetTheData) {
  World world(
      WithSet(RoleJson(2), "", fmt::format(R"(,"ps":{},"heter":{})", RoleJson(1), RoleJson(1))));
  world.SetSampleSet("Ready");
  world.AddCacheNode("n", "s-runtime-0");
  world.Settle();
  for (const char* name : {"j-ps-0", "j-heter-0"}) {
    const auto pod = world.PodJson(name);
    EXPECT_FALSE(pod["spec"].contains("volumes")) << name;
    EXPECT_FALSE(pod["spec"].contains("affinity")) << name;
  }
  const auto worker = world.PodJson("j-worker-0");
  EXPECT_EQ(worker["spec"]["volumes"][0]["persistentVolumeClaim"],
            (Json{{"claimName", "s"}, {"readOnly", true}}));
  EXPECT_EQ(worker["spec"]["containers"][0]["volumeMounts"][0]["mountPath"], "/m");
  const auto surplus = world.PodJson("j-worker-1");
  EXPECT_FALSE(surplus["spec"].contains("affinity")) << "more workers than partitions: anywhere";
  EXPECT_TRUE(surplus["spec"].contains("volumes"));
}

TEST(Findings, J7ASampleSetOfAnotherNamespaceIsRefused) {
  World world(WithSet(RoleJson(1), R"(,"namespace":"elsewhere")"));
  world.Settle();
  EXPECT_THAT(world.PodNames(), IsEmpty());
  ASSERT_EQ(world.notes.size(), 1u);
  EXPECT_THAT(world.notes[0].message, HasSubstr("claims of their own namespace default"));
}

TEST(Findings, J8WorkersAreMadeOnceTheNodesAreLabelled) {
  World world(WithSet(RoleJson(1)));
  world.SetSampleSet("Mount");
  world.Settle();
  EXPECT_THAT(world.PodNames(), IsEmpty());
  world.SetSampleSet("Ready");
  world.AddCacheNode("n", "s-runtime-0");
  world.Settle();
  EXPECT_TRUE(world.PodJson("j-worker-0")["spec"]["affinity"]["nodeAffinity"].contains(
      std::string(kRequired)));
}

TEST(Findings, J9TheSampleSetIsNeverWritten) {
  World world(WithSet(RoleJson(2)));
  world.SetSampleSet("Ready");
  auto plans = world.Settle();
  world.RunAll();
  for (auto& plan : world.Settle()) plans.push_back(std::move(plan));
  for (const auto& plan : plans) {
    for (const auto& step : plan.steps) EXPECT_TRUE(step.patches.empty());
  }
}

TEST(Findings, J10PodsComeAndGoTogether) {
  World world(fmt::format(R"({{"cleanPodPolicy":"Always","ps":{},"worker":{}}})", RoleJson(10),
                          RoleJson(10)));
  const Plan first = world.Step();
  ASSERT_EQ(first.steps.size(), 1u);
  EXPECT_EQ(first.steps[0].creates.size(), 20u);
  ASSERT_TRUE(world.BringUp());
  world.slow_deletion = true;
  for (int i = 0; i < 10; ++i)
    world.SetPhase(fmt::format("j-worker-{}", i), api::PodPhase::kSucceeded);
  const Plan last = world.Step();
  ASSERT_EQ(last.steps.size(), 1u);
  EXPECT_EQ(last.steps[0].deletes.size(), 20u);
}

TEST(Findings, J11TheConfigMapFollowsScaling) {
  World world(fmt::format(R"({{"worker":{}}})", RoleJson(2)));
  ASSERT_TRUE(world.BringUp());
  world.Edit([](auto& spec) { spec.worker->replicas = 4; });
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.PodNames().size(), 4u);
  EXPECT_EQ(world.config_map()->data.at("PADDLE_TRAINERS_NUM"), "4");
  world.Edit([](auto& spec) { spec.worker->replicas = 1; });
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.PodNames().size(), 1u);
  EXPECT_EQ(world.config_map()->data.at("PADDLE_TRAINER_ENDPOINTS"),
            world.FindPod("j-worker-0")->pod_ip + ":2379");
  EXPECT_EQ(world.status().mode, "Single");
  EXPECT_THAT(world.notes,
              Contains(Field(&ChangeNote::message, HasSubstr("scaled from worker=2 to worker=4"))));
}

TEST(Findings, J12DualStackAndIpv6) {
  World world(fmt::format(R"({{"worker":{}}})", RoleJson(1)));
  world.Settle();
  world.PlaceAll();
  world.FindPod("j-worker-0")->pod_ip = "fd00::5";
  world.Settle();
  EXPECT_EQ(world.config_map(), nullptr);
  EXPECT_THAT(world.notes,
              Contains(Field(&ChangeNote::message, HasSubstr("set spec.intranet to Service"))));
  world.FindPod("j-worker-0")->pod_ips = {"fd00::5", "10.0.0.5"};
  world.Settle();
  ASSERT_NE(world.config_map(), nullptr);
  EXPECT_EQ(world.config_map()->data.at("PADDLE_TRAINERS"), "10.0.0.5");

  World by_name(fmt::format(R"({{"intranet":"Service","worker":{}}})", RoleJson(1)));
  by_name.Settle();
  by_name.PlaceAll();
  by_name.FindPod("j-worker-0")->pod_ip = "fd00::5";
  by_name.Settle();
  EXPECT_NE(by_name.config_map(), nullptr);
}

TEST(Findings, J13AFinishedJobIsCleanedWhateverItsPodGroupSays) {
  World world(fmt::format(R"({{"cleanPodPolicy":"Always","worker":{}}})", RoleJson(2)), "j",
              {.volcano = true});
  world.Settle();
  world.pod_group()->phase = "Inqueue";
  ASSERT_TRUE(world.BringUp());
  world.pod_group()->phase = "Unknown";
  world.SetPhase("j-worker-0", api::PodPhase::kFailed, 1);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Failed");
  EXPECT_THAT(world.PodNames(), IsEmpty());
  EXPECT_EQ(world.pod_group(), nullptr);
}

TEST(Findings, J14ADeletedJobCreatesNothing) {
  World world(fmt::format(R"({{"worker":{}}})", RoleJson(2)));
  world.job().metadata.deletion_timestamp = world.now;
  world.job().metadata.finalizers = {"other", "finalizers.paddlepaddle.org"};
  world.Settle();
  EXPECT_THAT(world.PodNames(), IsEmpty());
  EXPECT_THAT(world.job().metadata.finalizers, ElementsAre("other"));
}

TEST(Findings, J15ElasticWithoutWorkersIsExplained) {
  World world(fmt::format(R"({{"elastic":1,"ps":{}}})", RoleJson(1)), "j",
              {.etcd_servers = {"e:1"}});
  world.Settle();
  EXPECT_THAT(world.PodNames(), IsEmpty());
  EXPECT_THAT(world.notes[0].message, HasSubstr("an elastic job needs spec.worker"));
}

TEST(Findings, J16AnEmptyJobDoesNotRunAndServersDoNotKeepAJobOpen) {
  World empty("{}");
  empty.Settle();
  EXPECT_EQ(empty.status().phase, "Pending");
  World world(fmt::format(R"({{"ps":{},"worker":{}}})", RoleJson(1), RoleJson(1)));
  ASSERT_TRUE(world.BringUp());
  world.SetPhase("j-worker-0", api::PodPhase::kSucceeded);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Completed");
}

TEST(Findings, J17TheOrderIsFixed) {
  for (int i = 0; i < 10; ++i) {
    World world(fmt::format(R"({{"heter":{},"worker":{},"ps":{}}})", RoleJson(1), RoleJson(2),
                            RoleJson(1)));
    world.Settle();
    EXPECT_THAT(world.PodNames(), ElementsAre("j-ps-0", "j-worker-0", "j-worker-1", "j-heter-0"));
  }
}

TEST(Findings, J18GlooWorksInServiceMode) {
  World world(fmt::format(R"({{"intranet":"Service","withGloo":1,"ps":{},"worker":{}}})",
                          RoleJson(1), RoleJson(1)));
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.config_map()->data.at("PADDLE_WITH_GLOO"), "1");
}

TEST(Findings, J19NothingIsWrittenWhenNothingChanges) {
  World world(fmt::format(R"({{"ps":{},"worker":{}}})", RoleJson(1), RoleJson(2)));
  ASSERT_TRUE(world.BringUp());
  const int requests = world.requests;
  const auto status = world.status();
  world.now += seconds(3600);
  for (auto* name : {"j-ps-0", "j-worker-0", "j-worker-1"})
    world.FindPod(name)->metadata.resource_version = "999";
  const Plan plan = world.Step();
  EXPECT_EQ(world.requests, requests);
  EXPECT_EQ(plan.status, status);
  EXPECT_TRUE(plan.notes.empty());
  EXPECT_FALSE(plan.recheck.has_value());
}

TEST(Findings, J20StatusSaysWhatHappens) {
  World world(fmt::format(R"({{"worker":{}}})", RoleJson(1)));
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.status().observed_generation, 1);
  EXPECT_NE(api::FindCondition(world.status().conditions, condition::kAccepted), nullptr);
  EXPECT_NE(api::FindCondition(world.status().conditions, condition::kRunning), nullptr);
  world.Edit([](auto& spec) { spec.backoff_limit = 2; });
  world.Settle();
  EXPECT_EQ(world.status().observed_generation, 2);
}

TEST(Findings, J21NoHelperContainerIsNeeded) {
  World world(fmt::format(R"({{"ps":{},"worker":{}}})", RoleJson(1), RoleJson(1)));
  world.Settle();
  for (const char* name : {"j-ps-0", "j-worker-0"}) {
    EXPECT_FALSE(world.PodJson(name)["spec"].contains("initContainers")) << name;
  }
}

TEST(Findings, J22PortBlocksSurviveARestartAndAreNotShared) {
  PortAllocator allocator(35000, 35100);
  // After a restart the annotations of the other jobs are all there is.
  const std::map<std::string, std::vector<int>> others = {{"default/a", {35020}},
                                                          {"default/b", {35040, 35060}}};
  EXPECT_EQ(allocator.Blocks("default/c", 1, {}, others), (std::vector<int>{35000}));
  EXPECT_EQ(allocator.Blocks("default/d", 1, {}, others), (std::vector<int>{35080}))
      << "c's is not stored yet, but taken";
  EXPECT_THAT(allocator.Blocks("default/e", 1, {}, others), IsEmpty()) << "used up";
  EXPECT_EQ(allocator.Blocks("default/c", 1, {}, others), (std::vector<int>{35000}))
      << "stays the same";
  allocator.Release("default/d");
  EXPECT_EQ(allocator.Blocks("default/e", 1, {}, others), (std::vector<int>{35080}));
}

TEST(Findings, J23ServicesGoWithTheirPods) {
  World world(fmt::format(R"({{"intranet":"Service","worker":{}}})", RoleJson(3)));
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.ServiceNames().size(), 3u);
  world.Edit([](auto& spec) { spec.worker->replicas = 1; });
  ASSERT_TRUE(world.BringUp());
  EXPECT_THAT(world.ServiceNames(), ElementsAre("j-worker-0"));
}

}  // namespace
}  // namespace paddleop::controllers::paddlejob
