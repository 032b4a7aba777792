#include "controllers/paddlejob/controller.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/testing/matchers.h"
#include "controllers/common/caches.h"
#include "controllers/paddlejob/names.h"
#include "kube/testing/failing_cluster.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/wait_until.h"

namespace paddleop::controllers::paddlejob {
namespace {

using api::Json;
using kube::testing::WaitUntil;

// What kubelets would do: gives new pods an address and lets them run.
class Kubelet {
 public:
  explicit Kubelet(kube::testing::FakeCluster& cluster)
      : cluster_(cluster), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            Pass();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}

 private:
  void Pass() {
    auto page = cluster_.List(Context::Background(), api::Pod::kType, "", {});
    if (!page) return;
    for (const auto& raw : page->items) {
      if (!started_.insert(raw.uid).second) continue;
      // The pod may be gone again; then there is nobody to run.
      (void)cluster_.SetStatus(
          api::Pod::kType, raw.key(),
          fmt::format(R"({{"phase":"Running","podIP":"10.0.0.{}","containerStatuses":[
                                 {{"name":"c","ready":true,"state":{{"running":{{}}}}}}]}})",
                      next_++));
    }
  }

  kube::testing::FakeCluster& cluster_;
  std::set<std::string> started_;
  int next_ = 1;
  std::jthread thread_;
};

class ControllerTest : public ::testing::Test {
 protected:
  void Start() {
    caches_ = std::make_unique<Caches>("", client_, log_, metrics_);
    auto jobs = JobController::Create({.parallel_writes = 4}, client_, *caches_, log_, metrics_);
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

  void Create(std::string_view spec, const std::string& name = "j") {
    const Json job = {{"apiVersion", "batch.paddlepaddle.org/v1"},
                      {"kind", "PaddleJob"},
                      {"metadata", {{"name", name}, {"namespace", "default"}}},
                      {"spec", Json::parse(spec)}};
    ASSERT_OK(cluster_.Create(Context::Background(), api::PaddleJob::kType, "default", job.dump()));
  }
  api::PaddleJobStatus StatusOf(const std::string& name = "j") {
    auto raw = cluster_.Get(Context::Background(), api::PaddleJob::kType, {"default", name});
    if (!raw) return {};
    auto job = api::ParseAs<api::PaddleJob>(raw->json);
    return job ? job->status : api::PaddleJobStatus();
  }
  bool WaitPhase(std::string_view phase, const std::string& name = "j") {
    return WaitUntil([&] { return StatusOf(name).phase == phase; }, std::chrono::seconds(60));
  }
  void End(const std::string& pod, std::string_view phase, int code) {
    EXPECT_OK(cluster_.SetStatus(api::Pod::kType, {"default", pod},
                                 fmt::format(R"({{"phase":"{}","containerStatuses":[
                                   {{"name":"c","state":{{"terminated":{{"exitCode":{}}}}}}}]}})",
                                             phase, code)));
  }

  kube::testing::FakeCluster cluster_;
  kube::testing::FailingCluster client_{cluster_};
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  std::unique_ptr<Caches> caches_;
  std::unique_ptr<JobController> jobs_;
  std::unique_ptr<kube::Manager> manager_;
  std::jthread runner_;
};

constexpr std::string_view kTwoWorkers =
    R"({"backoffLimit":1,"worker":{"replicas":2,"template":{"spec":{"containers":[{"name":"c"}]}}}})";

TEST_F(ControllerTest, RunsAJobToItsEnd) {
  Kubelet kubelet(cluster_);
  Start();
  Create(kTwoWorkers);
  ASSERT_TRUE(WaitPhase("Running"));
  EXPECT_EQ(cluster_.size(api::Pod::kType), 2u);
  EXPECT_EQ(cluster_.size(api::ConfigMap::kType), 1u);
  End("j-worker-0", "Succeeded", 0);
  End("j-worker-1", "Succeeded", 0);
  ASSERT_TRUE(WaitPhase("Completed"));
  EXPECT_TRUE(WaitUntil([&] { return cluster_.size(api::Pod::kType) == 0; }));
}

TEST_F(ControllerTest, EachPodIsCreatedOnce) {
  Kubelet kubelet(cluster_);
  Start();
  for (int i = 0; i < 20; ++i) Create(kTwoWorkers, fmt::format("j{}", i));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(WaitPhase("Running", fmt::format("j{}", i)));
  const auto pods = api::Pod::kType;
  const auto maps = api::ConfigMap::kType;
  EXPECT_EQ(cluster_.Requests("create", &pods), 40u);
  EXPECT_EQ(cluster_.Requests("create", &maps), 20u);
}

TEST_F(ControllerTest, ARestartedManagerGoesOn) {
  Kubelet kubelet(cluster_);
  Start();
  Create(kTwoWorkers);
  ASSERT_TRUE(WaitPhase("Running"));
  Stop();
  End("j-worker-0", "Failed", 1);
  Start();
  ASSERT_TRUE(WaitUntil([&] { return StatusOf().failures == 1; }));
  ASSERT_TRUE(WaitPhase("Running"));
  EXPECT_EQ(StatusOf().gang, 1);
}

// Requests fail in every way they can, all the time; the end is the same as without.
TEST_F(ControllerTest, FaultsDoNotChangeTheEnd) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::string name = fmt::format("j{}", seed);
    client_.FailRandomly(seed, 0.25);
    Kubelet kubelet(cluster_);
    Start();
    Create(kTwoWorkers, name);
    ASSERT_TRUE(WaitPhase("Running", name));
    End(name + "-worker-1", "Failed", 1);
    ASSERT_TRUE(WaitUntil([&] { return StatusOf(name).failures == 1; }, std::chrono::seconds(60)));
    ASSERT_TRUE(WaitPhase("Running", name));
    EXPECT_EQ(StatusOf(name).gang, 1);
    cluster_.DropWatches();
    End(name + "-worker-0", "Succeeded", 0);
    cluster_.Compact();
    End(name + "-worker-1", "Succeeded", 0);
    ASSERT_TRUE(WaitPhase("Completed", name));
    EXPECT_EQ(StatusOf(name).failures, 1);
    EXPECT_TRUE(
        WaitUntil([&] { return cluster_.size(api::Pod::kType) == 0; }, std::chrono::seconds(60)));
    client_.FailRandomly(0, 0);
    Stop();
  }
}

TEST(ControllerSettings, Validate) {
  EXPECT_OK(ControllerSettings().Validate());
  EXPECT_CODE((ControllerSettings{.first_port = 80}).Validate(), Code::kInvalid);
  EXPECT_CODE((ControllerSettings{.first_port = 40000, .last_port = 40010}).Validate(),
              Code::kInvalid);
  EXPECT_CODE((ControllerSettings{.last_port = 70000}).Validate(), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::controllers::paddlejob
