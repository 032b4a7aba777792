#include "controllers/samplejob/controller.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "api/core/pod.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "controllers/common/testing/fake_runtime.h"
#include "kube/testing/failing_cluster.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/wait_until.h"

namespace paddleop::controllers::samplejob {
namespace {

using api::Json;
using kube::testing::WaitUntil;

class DataJobControllerTest : public ::testing::Test {
 protected:
  // A set that is ready, with one runtime and the Secret that opens it.
  void SetUp() override {
    auto set = cluster_.Create(ctx_, api::SampleSet::kType, "data",
                               R"({"apiVersion":"batch.paddlepaddle.org/v1alpha1",
        "kind":"SampleSet","metadata":{"name":"s"},"spec":{"partitions":1,"noSync":true}})");
    ASSERT_OK(set);
    ASSERT_OK(cluster_.SetStatus(api::SampleSet::kType, {"data", "s"},
                                 R"({"phase":"Ready","runtimeStatus":{"readyReplicas":1}})"));
    const Json pod = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata",
         {{"name", "s-runtime-0"},
          {"labels",
           {{"paddlepaddle.org/sampleset", "s"}, {"paddlepaddle.org/sampleset-uid", set->uid}}}}}};
    ASSERT_OK(cluster_.Create(ctx_, api::Pod::kType, "data", pod.dump()));
    ASSERT_OK(cluster_.SetStatus(api::Pod::kType, {"data", "s-runtime-0"},
                                 R"({"phase":"Running","podIP":"10.0.0.1",
                                     "conditions":[{"type":"Ready","status":"True"}]})"));
    ASSERT_OK(cluster_.Create(ctx_, api::SecretObject::kType, "data",
                              R"({"apiVersion":"v1","kind":"Secret",
        "metadata":{"name":"s-runtime-auth"},"data":{"ca.crt":"Yw==","token":"dA=="}})"));
  }
  void Start(Clock& clock = Clock::System()) {
    caches_ = std::make_unique<Caches>("", client_, log_, metrics_);
    auto jobs =
        DataJobController::Create({}, client_, *caches_, log_, metrics_, clock, runtimes_.Dialer());
    ASSERT_OK(jobs);
    jobs_ = *std::move(jobs);
    manager_ = std::make_unique<kube::Manager>(
        kube::ManagerOptions{.metrics_address = "0", .health_address = "0"}, client_, log_,
        metrics_);
    jobs_->AddTo(*manager_);
    caches_->AddTo(*manager_);
    runner_ = std::jthread([this](const std::stop_token& stop) {
      EXPECT_OK(manager_->Run(Context::Background().WithStop(stop)));
    });
  }
  void Stop() {
    runner_ = {};
    manager_.reset();
    jobs_.reset();
    caches_.reset();
  }
  void TearDown() override { Stop(); }

  void Create(const std::string& name, std::string_view spec) {
    const Json job = {{"apiVersion", "batch.paddlepaddle.org/v1alpha1"},
                      {"kind", "SampleJob"},
                      {"metadata", {{"name", name}}},
                      {"spec", Json::parse(spec)}};
    ASSERT_OK(cluster_.Create(ctx_, api::SampleJob::kType, "data", job.dump()));
  }
  api::SampleJobStatus StatusOf(const std::string& name) {
    auto raw = cluster_.Get(ctx_, api::SampleJob::kType, {"data", name});
    if (!raw) return {};
    auto job = api::ParseAs<api::SampleJob>(raw->json);
    return job ? job->status : api::SampleJobStatus();
  }
  bool WaitPhase(const std::string& name, std::string_view phase) {
    return WaitUntil([&] { return StatusOf(name).phase == phase; }, std::chrono::seconds(60));
  }

  kube::testing::FakeCluster cluster_;
  kube::testing::FailingCluster client_{cluster_};
  testing::FakeRuntimes runtimes_;
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  const Context ctx_ = Context::Background();
  std::unique_ptr<Caches> caches_;
  std::unique_ptr<DataJobController> jobs_;
  std::unique_ptr<kube::Manager> manager_;
  std::jthread runner_;
};

constexpr std::string_view kClear = R"({"type":"clear","sampleSetRef":{"name":"s"}})";

TEST_F(DataJobControllerTest, RunsAJob) {
  Start();
  Create("j", kClear);
  ASSERT_TRUE(WaitPhase("j", "Succeeded"));
  EXPECT_EQ(runtimes_.jobs(), 1u);
}

TEST_F(DataJobControllerTest, FaultsRunNothingTwice) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    client_.FailRandomly(seed, 0.25);
    const auto before = runtimes_.jobs();
    Start();
    const std::string name = fmt::format("j{}", seed);
    Create(name, kClear);
    ASSERT_TRUE(WaitPhase(name, "Succeeded"));
    EXPECT_EQ(runtimes_.jobs(), before + 1);
    client_.FailRandomly(0, 0);
    Stop();
  }
}

TEST_F(DataJobControllerTest, ARestartedManagerGoesOn) {
  runtimes_.SetOutcome(runtime::JobState::kRunning);
  Start();
  Create("j", kClear);
  ASSERT_TRUE(WaitPhase("j", "Running"));
  Stop();
  Start();
  runtimes_.SetState(StatusOf("j").job_name, runtime::JobState::kSucceeded);
  ASSERT_TRUE(WaitPhase("j", "Succeeded"));
  EXPECT_EQ(runtimes_.jobs(), 1u);
}

TEST_F(DataJobControllerTest, DeletionStopsARunningJob) {
  runtimes_.SetOutcome(runtime::JobState::kRunning);
  Start();
  Create("j", kClear);
  ASSERT_TRUE(WaitPhase("j", "Running"));
  const std::string name = StatusOf("j").job_name;
  ASSERT_OK(cluster_.Delete(ctx_, api::SampleJob::kType, {"data", "j"}));
  ASSERT_TRUE(WaitUntil([&] { return cluster_.size(api::SampleJob::kType) == 0; },
                        std::chrono::seconds(60)));
  EXPECT_EQ(runtimes_.cancelled(), std::vector<std::string>{name});
}

TEST_F(DataJobControllerTest, AScheduleFollowsTheClock) {
  ::paddleop::testing::ManualClock clock;
  Start(clock);
  Create("j", R"({"type":"clear","sampleSetRef":{"name":"s"},"schedule":"*/5 * * * *"})");
  ASSERT_TRUE(WaitPhase("j", "Scheduled"));
  // The schedule counts from the job's creation, which the cluster's clock gave it.
  const auto created = std::chrono::system_clock::now();
  if (created > clock.WallNow()) clock.Advance(created - clock.WallNow());
  clock.Advance(std::chrono::minutes(6));
  // Waits are in real time; a touch makes the controller look at its clock.
  ASSERT_OK(cluster_.Patch(ctx_, api::SampleJob::kType, {"data", "j"},
                           kube::MergePatch(R"({"metadata":{"annotations":{"touched":"yes"}}})")));
  EXPECT_TRUE(WaitUntil([&] { return runtimes_.jobs() >= 1; }, std::chrono::seconds(60)));
  // Written after the job that it tells of.
  EXPECT_TRUE(WaitUntil([&] { return StatusOf("j").last_schedule_time.has_value(); },
                        std::chrono::seconds(60)));
  Stop();  // before the clock goes
}

}  // namespace
}  // namespace paddleop::controllers::samplejob
