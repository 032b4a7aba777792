#include "controllers/paddlejob/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controllers/paddlejob/testing/world.h"

namespace paddleop::controllers::paddlejob {
namespace {

using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::EnvOf;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RoleJson;
using testing::World;

std::string Collective(int workers, std::string_view more = "") {
  return fmt::format(R"({{"worker":{}{}}})", RoleJson(workers), more);
}
std::string Servers(int ps, int workers, std::string_view more = "") {
  return fmt::format(R"({{"ps":{},"worker":{}{}}})", RoleJson(ps), RoleJson(workers), more);
}
auto Reason(const std::string& reason) { return Field(&ChangeNote::reason, reason); }

std::string ConditionOf(World& world, const char* type) {
  const auto* found = api::FindCondition(world.status().conditions, type);
  return found == nullptr ? "" : found->status + "/" + found->reason;
}

// Brings the job to Running.
TEST(Decide, AJobRunsAndCompletes) {
  World world(Servers(1, 2));
  const auto plans = world.Settle();
  EXPECT_THAT(world.PodNames(), ElementsAre("j-ps-0", "j-worker-0", "j-worker-1"));
  EXPECT_EQ(world.status().phase, "Pending");
  EXPECT_EQ(world.status().mode, "PS");
  EXPECT_EQ(world.status().worker->pending, 2);
  EXPECT_EQ(world.config_map(), nullptr);
  EXPECT_EQ(world.status().observed_generation, 1);
  EXPECT_EQ(ConditionOf(world, condition::kRunning), "False/WaitingForPods");

  world.PlaceAll();
  world.Settle();
  ASSERT_NE(world.config_map(), nullptr) << "the gate opens once every pod has an address";
  EXPECT_EQ(world.status().phase, "Pending");

  world.now += seconds(5);
  world.RunAll();
  world.Settle();
  EXPECT_EQ(world.status().phase, "Running");
  EXPECT_EQ(world.status().start_time, world.now);
  EXPECT_EQ(world.status().worker->running, 2);
  EXPECT_EQ(ConditionOf(world, condition::kRunning), "True/PodsRunning");

  world.SetPhase("j-worker-0", api::PodPhase::kSucceeded);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Running");
  world.now += seconds(60);
  world.SetPhase("j-worker-1", api::PodPhase::kSucceeded);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Completed");
  EXPECT_EQ(world.status().completion_time, world.now);
  EXPECT_EQ(ConditionOf(world, condition::kCompleted), "True/Completed");
  EXPECT_THAT(world.PodNames(), IsEmpty()) << "OnCompletion is the default";
  EXPECT_EQ(world.status().worker->succeeded, 2) << "counters stay as they were";
}

TEST(Decide, AStartingPodIsSeenAsSuch) {
  World world(Collective(2));
  world.Settle();
  world.RunAll();
  world.FindPod("j-worker-1")->containers[0].ready = false;
  world.Settle();
  EXPECT_EQ(world.status().phase, "Starting");
  EXPECT_EQ(world.status().worker->starting, 1);
}

TEST(Decide, AFailedPodFailsTheJob) {
  World world(Collective(2, R"(,"cleanPodPolicy":"Never")"));
  ASSERT_TRUE(world.BringUp());
  world.SetPhase("j-worker-1", api::PodPhase::kFailed, 3);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Failed");
  EXPECT_EQ(world.status().worker->failed, 1);
  EXPECT_TRUE(world.status().completion_time.has_value());
  EXPECT_THAT(world.notes,
              Contains(Field(&ChangeNote::message,
                             HasSubstr("j-worker-1: container c exited with 3 (Error)"))));
  EXPECT_EQ(world.PodNames().size(), 2u);
}

// Which pods are left after the end, by policy.
TEST(Decide, CleanPodPolicies) {
  struct Case {
    const char* policy;
    bool failed;
    std::size_t left;
  };
  const Case cases[] = {{"", false, 0},
                        {"", true, 3},
                        {"Always", false, 0},
                        {"Always", true, 0},
                        {"Never", false, 3},
                        {"Never", true, 3},
                        {"OnFailure", false, 3},
                        {"OnFailure", true, 0},
                        {"OnCompletion", false, 0},
                        {"OnCompletion", true, 3},
                        {"Nerver", false, 3},
                        {"OnFailed", true, 3}};
  for (const auto& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.policy, c.failed));
    World world(Servers(1, 2, fmt::format(R"(,"cleanPodPolicy":"{}")", c.policy)));
    ASSERT_TRUE(world.BringUp());
    if (c.failed) {
      world.SetPhase("j-worker-0", api::PodPhase::kFailed, 1);
    } else {
      world.SetPhase("j-worker-0", api::PodPhase::kSucceeded);
      world.SetPhase("j-worker-1", api::PodPhase::kSucceeded);
    }
    world.Settle();
    EXPECT_EQ(world.status().phase, c.failed ? "Failed" : "Completed");
    EXPECT_EQ(world.PodNames().size(), c.left);
    const bool kept = c.left > 0 && !c.failed;
    EXPECT_EQ(std::count_if(world.notes.begin(), world.notes.end(),
                            [](auto& n) { return n.reason == "ServersKept"; }),
              kept ? 1 : 0);
    const bool unknown =
        std::string_view(c.policy) == "Nerver" || std::string_view(c.policy) == "OnFailed";
    EXPECT_EQ(
        std::count_if(world.notes.begin(), world.notes.end(),
                      [](auto& n) { return n.reason == "UnknownCleanPodPolicy" && n.warning; }),
        unknown ? 1 : 0);
  }
}

TEST(Decide, RestartsWithinTheLimit) {
  World world(Collective(2, R"(,"backoffLimit":1)"));
  ASSERT_TRUE(world.BringUp());
  const std::string first_uid = world.FindPod("j-worker-0")->metadata.uid;
  world.SetPhase("j-worker-1", api::PodPhase::kFailed, 1);
  const Plan plan = world.Step();
  EXPECT_TRUE(plan.status_first) << "or a crash would count the failure twice";
  EXPECT_EQ(plan.steps.at(0).deletes.at(0).type, api::ConfigMap::kType)
      << "a stale ConfigMap opens the gate";
  EXPECT_EQ(plan.steps.at(1).deletes.size(), 2u) << "the whole gang starts again";
  EXPECT_EQ(world.status().phase, "Restarting");
  EXPECT_EQ(world.status().failures, 1);

  world.Settle();
  EXPECT_THAT(world.PodNames(), IsEmpty()) << "not before the back-off is over";
  world.now += seconds(1);
  ASSERT_TRUE(world.BringUp());
  EXPECT_NE(world.FindPod("j-worker-0")->metadata.uid, first_uid);
  world.SetPhase("j-worker-0", api::PodPhase::kFailed, 1);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Failed");
  EXPECT_EQ(world.status().failures, 1);
}

TEST(Decide, RestartDelaysGrow) {
  World world(Collective(1, R"(,"backoffLimit":20)"));
  seconds last(0);
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(world.BringUp());
    world.SetPhase("j-worker-0", api::PodPhase::kFailed, 1);
    const auto plan = world.Step();
    ASSERT_TRUE(plan.recheck.has_value());
    EXPECT_GE(*plan.recheck, last);
    EXPECT_LE(*plan.recheck, seconds(300));
    last = *plan.recheck;
    world.now += last;
  }
  EXPECT_EQ(last, seconds(300));
}

TEST(Decide, ALostPodStartsTheGangAgainWithoutCounting) {
  World world(Collective(3));
  ASSERT_TRUE(world.BringUp());
  const std::string before = world.config_map()->data.at("PADDLE_TRAINER_ENDPOINTS");
  world.LosePod("j-worker-1");
  world.Step();
  EXPECT_EQ(world.status().phase, "Restarting");
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.status().failures, 0);
  EXPECT_EQ(world.status().gang, 1);
  EXPECT_NE(world.config_map()->data.at("PADDLE_TRAINER_ENDPOINTS"), before);
}

TEST(Decide, InServiceModeALostPodIsReplacedAlone) {
  World world(Collective(3, R"(,"intranet":"Service")"));
  ASSERT_TRUE(world.BringUp());
  const std::string other = world.FindPod("j-worker-0")->metadata.uid;
  world.LosePod("j-worker-1");
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.FindPod("j-worker-0")->metadata.uid, other);
  EXPECT_EQ(world.status().gang, 0);
}

TEST(Decide, ACrashBetweenStatusAndStepsIsMadeGood) {
  World world(Collective(2, R"(,"backoffLimit":1)"));
  ASSERT_TRUE(world.BringUp());
  world.SetPhase("j-worker-1", api::PodPhase::kFailed, 1);
  // Only the status was stored.
  World crashed = world;
  crashed.Step();
  auto status = crashed.status();
  world.job().status = status;
  world.now += seconds(1);
  world.Settle();
  EXPECT_EQ(world.status().failures, 1);
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.status().gang, 1);
}

TEST(Decide, AnAddressThatMovesStartsTheGangAgain) {
  World world(Collective(2));
  ASSERT_TRUE(world.BringUp());
  world.FindPod("j-worker-0")->pod_ip = "10.9.9.9";
  world.Step();
  EXPECT_EQ(world.status().gang, 1);
}

TEST(Decide, WaitsForPodsThatAreGoingAway) {
  World world(Collective(2));
  ASSERT_TRUE(world.BringUp());
  world.slow_deletion = true;
  world.Edit([](auto& spec) { spec.worker->replicas = 3; });
  world.Settle();
  EXPECT_EQ(world.status().phase, "Scaling");
  EXPECT_EQ(world.PodNames().size(), 3u) << "the new name is free, the others are not yet";
  world.Reap();
  world.slow_deletion = false;
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.PodNames().size(), 3u);
  EXPECT_EQ(world.config_map()->data.at("PADDLE_TRAINERS_NUM"), "3");
}

TEST(Decide, SuspendsAndResumes) {
  World world(Servers(1, 1));
  ASSERT_TRUE(world.BringUp());
  world.Edit([](auto& spec) { spec.suspend = true; });
  world.Settle();
  EXPECT_EQ(world.status().phase, "Suspended");
  EXPECT_THAT(world.PodNames(), IsEmpty());
  EXPECT_EQ(world.config_map(), nullptr);
  EXPECT_FALSE(world.status().start_time.has_value());
  EXPECT_EQ(ConditionOf(world, condition::kSuspended), "True/Suspended");
  world.Edit([](auto& spec) { spec.suspend = false; });
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(ConditionOf(world, condition::kSuspended), "False/Resumed");
  EXPECT_EQ(world.status().failures, 0);
}

TEST(Decide, SuspendedFromTheStartCreatesNothing) {
  World world(Collective(2, R"(,"suspend":true)"));
  world.Settle();
  EXPECT_THAT(world.PodNames(), IsEmpty());
  EXPECT_EQ(world.status().gang, 0);
}

TEST(Decide, ADeadlineStopsWhatRuns) {
  World world(Collective(2, R"(,"activeDeadlineSeconds":60,"cleanPodPolicy":"Never")"));
  ASSERT_TRUE(world.BringUp());
  world.SetPhase("j-worker-0", api::PodPhase::kSucceeded);
  world.now += seconds(59);
  const Plan before = world.Step();
  EXPECT_EQ(before.recheck, seconds(1));
  world.now += seconds(1);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Failed");
  EXPECT_EQ(ConditionOf(world, condition::kFailed), "True/DeadlineExceeded");
  EXPECT_THAT(world.PodNames(), ElementsAre("j-worker-0")) << "what has ended stays, as Never says";
}

TEST(Decide, AFinishedJobExpires) {
  World world(Collective(1, R"(,"ttlSecondsAfterFinished":30)"));
  ASSERT_TRUE(world.BringUp());
  world.SetPhase("j-worker-0", api::PodPhase::kSucceeded);
  world.Settle();
  EXPECT_EQ(world.Step().recheck, seconds(30));
  EXPECT_FALSE(world.Step().delete_job);
  world.now += seconds(30);
  EXPECT_TRUE(world.Step().delete_job);
}

TEST(Decide, AnInvalidJobIsExplainedOnce) {
  World world(R"({"withGloo":1})");
  world.Settle();
  EXPECT_EQ(world.status().phase, "Pending");
  EXPECT_EQ(ConditionOf(world, condition::kAccepted), "False/InvalidSpec");
  EXPECT_EQ(world.notes.size(), 1u);
  EXPECT_THAT(world.notes[0].message, HasSubstr("the job has no pods"));
  world.Step();
  EXPECT_EQ(world.notes.size(), 1u);
  world.Edit([](auto& spec) {
    spec.worker.emplace();
    spec.worker->replicas = 1;
    spec.worker->pod_template.text = R"({"spec":{"containers":[{"name":"c"}]}})";
  });
  world.Settle();
  EXPECT_EQ(ConditionOf(world, condition::kAccepted), "True/Valid");
  EXPECT_EQ(world.PodNames().size(), 1u);
}

TEST(Decide, PodsOfTheFormerOperatorAreTakenOver) {
  World world(Collective(1));
  world.Settle();
  world.FindPod("j-worker-0")->metadata.annotations.clear();  // it knew no gangs
  const std::string uid = world.FindPod("j-worker-0")->metadata.uid;
  world.RunAll();
  world.Settle();
  EXPECT_EQ(world.status().phase, "Running");
  EXPECT_EQ(world.FindPod("j-worker-0")->metadata.uid, uid);
}

TEST(Decide, FewRequests) {
  World world(Collective(4));
  world.Settle();
  world.RunAll();
  world.Settle();
  ASSERT_EQ(world.status().phase, "Running");
  EXPECT_LE(world.requests, 8) << "4 pods, a ConfigMap, and the status";
}

TEST(Decide, VolcanoHoldsPodsUntilTheGangIsAdmitted) {
  World world(Servers(1, 2, R"(,"schedulingPolicy":{"queue":"q","priorityClass":"high"})"), "j",
              {.volcano = true});
  world.Settle();
  EXPECT_THAT(world.PodNames(), IsEmpty());
  ASSERT_NE(world.pod_group(), nullptr);
  EXPECT_EQ(world.pod_group()->min_member, 3);
  EXPECT_EQ(world.pod_group()->queue, "q");
  EXPECT_EQ(ConditionOf(world, condition::kRunning), "False/WaitingForQueue");
  world.pod_group()->phase = "Inqueue";
  ASSERT_TRUE(world.BringUp());
  const auto pod = world.PodJson("j-ps-0");
  EXPECT_EQ(pod["spec"]["schedulerName"], "volcano");
  EXPECT_EQ(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "j");
  EXPECT_EQ(pod["metadata"]["annotations"]["volcano.sh/queue-name"], "q");
  EXPECT_EQ(pod["metadata"]["annotations"]["volcano.sh/task-spec"], "ps");
}

TEST(Decide, TheUsersPodGroupIsRespected) {
  api::PodGroup group;
  group.metadata.name = "j";
  group.min_member = 4;
  group.phase = "Inqueue";
  World world(Servers(2, 2), "j", {.volcano = true});
  world.SetPodGroup(group);
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(world.PodNames().size(), 4u);
  world.SetPhase("j-worker-0", api::PodPhase::kSucceeded);
  world.SetPhase("j-worker-1", api::PodPhase::kSucceeded);
  world.Settle();
  EXPECT_NE(world.pod_group(), nullptr) << "it is not ours to delete";
}

TEST(Decide, OurPodGroupFollowsScalingUnlessTheUserAppliedIt) {
  for (const bool applied : {false, true}) {
    World world(Collective(2), "j", {.volcano = true});
    world.Settle();
    world.pod_group()->phase = "Running";
    world.pod_group()->applied_by_user = applied;
    ASSERT_TRUE(world.BringUp());
    world.Edit([](auto& spec) { spec.worker->replicas = 3; });
    ASSERT_TRUE(world.BringUp());
    EXPECT_EQ(world.pod_group()->min_member, applied ? 2 : 3);
  }
}

TEST(Decide, AnotherSchedulerTurnsVolcanoOff) {
  World world(fmt::format(R"({{"worker":{}}})",
                          RoleJson(2, R"({"schedulerName":"mine","containers":[{"name":"c"}]})")),
              "j", {.volcano = true});
  world.Settle();
  EXPECT_EQ(world.pod_group(), nullptr);
  EXPECT_EQ(world.PodJson("j-worker-0")["spec"]["schedulerName"], "mine");
}

TEST(Decide, ElasticJobsScaleWithoutARestart) {
  World world(Collective(2, R"(,"elastic":1)"), "j", {.etcd_servers = {"etcd:2379"}});
  auto plans = world.Settle();
  EXPECT_EQ(plans.back().elastic_np, 2);
  world.RunAll();
  world.Settle();
  EXPECT_EQ(world.status().phase, "Running");
  EXPECT_EQ(world.config_map(), nullptr);
  const std::string uid = world.FindPod("j-worker-0")->metadata.uid;
  world.Edit([](auto& spec) { spec.worker->replicas = 4; });
  plans = world.Settle();
  EXPECT_EQ(plans.back().elastic_np, 4);
  EXPECT_EQ(world.PodNames().size(), 4u);
  world.Edit([](auto& spec) { spec.worker->replicas = 1; });
  world.Settle();
  EXPECT_THAT(world.PodNames(), ElementsAre("j-worker-0"));
  EXPECT_EQ(world.FindPod("j-worker-0")->metadata.uid, uid);
}

TEST(Decide, AnElasticJobSurvivesAFailedWorker) {
  World world(Collective(2, R"(,"elastic":1)"), "j", {.etcd_servers = {"etcd:2379"}});
  world.Settle();
  world.RunAll();
  world.Settle();
  const std::string uid = world.FindPod("j-worker-0")->metadata.uid;
  world.SetPhase("j-worker-1", api::PodPhase::kFailed, 1);
  world.Settle();
  EXPECT_EQ(world.PodNames().size(), 2u);
  EXPECT_EQ(world.status().failures, 1);
  EXPECT_EQ(world.FindPod("j-worker-0")->metadata.uid, uid);
  world.job().spec.backoff_limit = 1;
  world.SetPhase("j-worker-1", api::PodPhase::kFailed, 1);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Failed");
}

TEST(Decide, ElasticWithoutEtcdIsExplained) {
  World world(Collective(2, R"(,"elastic":1)"));
  world.Settle();
  EXPECT_THAT(world.PodNames(), IsEmpty());
  EXPECT_EQ(ConditionOf(world, condition::kAccepted), "False/EtcdMissing");
  EXPECT_THAT(world.notes, ElementsAre(Reason("EtcdMissing")));
}

TEST(Decide, WaitsForTheDataOnce) {
  World world(Collective(2, R"(,"sampleSetRef":{"name":"s","mountPath":"/m"})"));
  world.Settle();
  EXPECT_EQ(ConditionOf(world, condition::kDataReady), "False/SampleSetNotFound");
  EXPECT_THAT(world.notes, ElementsAre(Reason("SampleSetNotFound")));
  world.SetSampleSet("Syncing");
  world.Settle();
  EXPECT_EQ(ConditionOf(world, condition::kDataReady), "False/NotReady");
  EXPECT_THAT(world.PodNames(), IsEmpty());
  world.SetSampleSet("Ready");
  world.Settle();
  EXPECT_EQ(world.PodNames().size(), 2u);
  world.SetSampleSet("PartialReady");
  ASSERT_TRUE(world.BringUp());
  EXPECT_EQ(ConditionOf(world, condition::kDataReady), "True/Ready") << "latched";
}

TEST(Decide, APartlyReadySetIsTakenAfterAWhile) {
  World world(Collective(1, R"(,"sampleSetRef":{"name":"s","mountPath":"/m"})"));
  world.SetSampleSet("PartialReady");
  EXPECT_EQ(world.Step().recheck, seconds(300));
  world.now += seconds(300);
  world.Settle();
  EXPECT_EQ(ConditionOf(world, condition::kDataReady), "True/PartialReady");
  EXPECT_EQ(world.PodNames().size(), 1u);
}

TEST(Decide, WaitForNoneStartsAtOnce) {
  World world(Collective(1, R"(,"sampleSetRef":{"name":"s","mountPath":"/m","waitFor":"None"})"));
  world.Settle();
  EXPECT_EQ(world.PodNames().size(), 1u);
}

TEST(Decide, TheDeadlineDoesNotRunWhileDataIsAwaited) {
  World world(
      Collective(1, R"(,"activeDeadlineSeconds":10,"sampleSetRef":{"name":"s","mountPath":"/m"})"));
  world.SetSampleSet("Syncing");
  world.Settle();
  world.now += seconds(1000);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Pending");
  world.SetSampleSet("Ready");
  ASSERT_TRUE(world.BringUp());
  world.now += seconds(10);
  world.Settle();
  EXPECT_EQ(world.status().phase, "Failed");
}

TEST(Decide, TemplatesSurvive) {
  World world(fmt::format(R"({{"worker":{}}})", RoleJson(1, R"({
    "containers":[{"name":"c","image":"i","futureField":{"a":1},"env":[{"name":"MINE","value":"1"},
                   {"name":"PADDLE_TRAINER_ID","value":"99"}],
                   "volumeMounts":[{"name":"dshm","mountPath":"/dev/shm"}]}, {"name":"side"}],
    "volumes":[{"name":"dshm","emptyDir":{"medium":"Memory"}}], "nodeSelector":{"a":"b"}, "novelty":true})")));
  world.Settle();
  const auto pod = world.PodJson("j-worker-0");
  EXPECT_EQ(pod["spec"]["novelty"], true);
  EXPECT_EQ(pod["spec"]["containers"][0]["futureField"]["a"], 1);
  EXPECT_EQ(pod["spec"]["containers"][1].size(), 1u) << "only the first container is touched";
  EXPECT_EQ(pod["spec"]["volumes"].size(), 1u);
  EXPECT_EQ(pod["spec"]["nodeSelector"]["a"], "b");
  EXPECT_EQ(EnvOf(pod, "MINE"), "1");
  EXPECT_EQ(EnvOf(pod, "PADDLE_TRAINER_ID"), "0") << "ours win";
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(pod["metadata"]["labels"]["paddle-res-name"], "j-worker-0");
  EXPECT_EQ(pod["metadata"]["labels"]["paddle-res-type"], "worker");
  EXPECT_EQ(pod["metadata"]["annotations"]["paddle-resource"], "worker");
}

TEST(Decide, RestartPolicies) {
  struct Case {
    const char* more;
    const char* written;
    const char* ps;
    const char* worker;
  };
  const Case cases[] = {{"", "", "Never", "Never"},
                        {R"(,"intranet":"Service")", "", "Never", "OnFailure"},
                        {R"(,"intranet":"Service")", "Never", "Never", "Never"},
                        {"", "Always", "Always", "Always"},
                        {R"(,"elastic":1)", "Never", "OnFailure", "OnFailure"}};
  for (const auto& c : cases) {
    const std::string pod =
        c.written[0] == 0
            ? std::string(R"({"containers":[{"name":"c"}]})")
            : fmt::format(R"({{"restartPolicy":"{}","containers":[{{"name":"c"}}]}})", c.written);
    World world(
        fmt::format(R"({{"ps":{},"worker":{}{}}})", RoleJson(1, pod), RoleJson(1, pod), c.more),
        "j", {.etcd_servers = {"e:1"}});
    world.Settle();
    EXPECT_EQ(world.PodJson("j-ps-0")["spec"]["restartPolicy"], c.ps) << c.more << c.written;
    EXPECT_EQ(world.PodJson("j-worker-0")["spec"]["restartPolicy"], c.worker)
        << c.more << c.written;
  }
}

}  // namespace
}  // namespace paddleop::controllers::paddlejob
