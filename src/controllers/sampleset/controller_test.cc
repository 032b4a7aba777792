#include "controllers/sampleset/controller.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "api/core/pod.h"
#include "base/testing/matchers.h"
#include "controllers/common/testing/fake_runtime.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/plan.h"
#include "kube/client/apply.h"
#include "kube/testing/failing_cluster.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/wait_until.h"

namespace paddleop::controllers::sampleset {
namespace {

using api::Json;
using kube::testing::WaitUntil;

// What the built-in controllers and kubelets would do: binds volumes, makes the pods of
// StatefulSets and lets them run.
class Builtin {
 public:
  explicit Builtin(kube::testing::FakeCluster& cluster)
      : cluster_(cluster), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            Pass();
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}

 private:
  // Objects may go at any moment; then there is nothing to do for them.
  void Pass() {
    Bind(api::PersistentVolume::kType);
    Bind(api::PersistentVolumeClaim::kType);
    auto sets = cluster_.List(ctx_, api::StatefulSet::kType, "", {});
    std::set<std::string> wanted;
    if (sets) {
      for (const auto& raw : sets->items) KeepPods(raw, wanted);
    }
    auto pods = cluster_.List(ctx_, api::Pod::kType, "", {});
    if (!pods) return;
    for (const auto& raw : pods->items) {
      if (!wanted.contains(raw.ns + "/" + raw.name))
        (void)cluster_.Delete(ctx_, api::Pod::kType, raw.key());
    }
  }

  void Bind(const api::ResourceType& type) {
    auto list = cluster_.List(ctx_, type, "", {});
    if (!list) return;
    for (const auto& raw : list->items) {
      if (raw.json.find("Bound") == std::string::npos)
        (void)cluster_.SetStatus(type, raw.key(), R"({"phase":"Bound"})");
    }
  }

  void KeepPods(const kube::RawObject& raw, std::set<std::string>& wanted) {
    const Json json = Json::parse(raw.json);
    const int replicas = json["spec"]["replicas"].get<int>();
    for (int i = 0; i < replicas; ++i) {
      const std::string name = fmt::format("{}-{}", raw.name, i);
      wanted.insert(raw.ns + "/" + name);
      const std::string node = fmt::format("node-{}", i);
      const Json pod = {
          {"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", name}, {"labels", json["spec"]["template"]["metadata"]["labels"]}}},
          {"spec", {{"nodeName", node}}}};
      if (!cluster_.Create(ctx_, api::Pod::kType, raw.ns, pod.dump())) continue;
      (void)cluster_.Create(
          ctx_, api::Node::kType, "",
          Json({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", node}}}}).dump());
      (void)cluster_.SetStatus(api::Node::kType, {"", node},
                               R"({"conditions":[{"type":"Ready","status":"True"}]})");
      (void)cluster_.SetStatus(api::Pod::kType, {raw.ns, name},
                               fmt::format(R"({{"phase":"Running","podIP":"10.0.0.{}","conditions":[
                          {{"type":"Ready","status":"True"}}]}})",
                                           i + 1));
    }
  }

  kube::testing::FakeCluster& cluster_;
  const Context ctx_ = Context::Background();
  std::jthread thread_;
};

class SetControllerTest : public ::testing::Test {
 protected:
  void Start() {
    caches_ = std::make_unique<Caches>("", client_, log_, metrics_);
    auto sets = SetController::Create({.parallel_requests = 4}, client_, *caches_, log_, metrics_,
                                      Clock::System(), runtimes_.Dialer());
    ASSERT_OK(sets);
    sets_ = *std::move(sets);
    manager_ = std::make_unique<kube::Manager>(
        kube::ManagerOptions{.metrics_address = "0", .health_address = "0"}, client_, log_,
        metrics_);
    sets_->AddTo(*manager_);
    caches_->AddTo(*manager_);
    runner_ = std::jthread([this](const std::stop_token& stop) {
      EXPECT_OK(manager_->Run(Context::Background().WithStop(stop)));
    });
  }
  void Stop() {
    runner_ = {};
    manager_.reset();
    sets_.reset();
    caches_.reset();
  }
  void TearDown() override { Stop(); }

  void CreateSet(const std::string& name, int partitions) {
    const Json secret = {{"apiVersion", "v1"},
                         {"kind", "Secret"},
                         {"metadata", {{"name", "v"}}},
                         {"data",
                          {{"name", "dg=="},
                           {"storage", "czM="},
                           {"bucket", "Yg=="},
                           {"metaurl", "cmVkaXM6Ly9oLzA="}}}};
    auto made = cluster_.Create(ctx_, api::SecretObject::kType, "data", secret.dump());
    ASSERT_TRUE(made || IsAlreadyExists(made.error()));
    const Json set = {{"apiVersion", "batch.paddlepaddle.org/v1alpha1"},
                      {"kind", "SampleSet"},
                      {"metadata", {{"name", name}}},
                      {"spec",
                       {{"partitions", partitions},
                        {"secretRef", {{"name", "v"}}},
                        {"source", {{"uri", "bos://b.host/p"}}}}}};
    ASSERT_OK(cluster_.Create(ctx_, api::SampleSet::kType, "data", set.dump()));
  }
  api::SampleSetStatus StatusOf(const std::string& name) {
    auto raw = cluster_.Get(ctx_, api::SampleSet::kType, {"data", name});
    if (!raw) return {};
    auto set = api::ParseAs<api::SampleSet>(raw->json);
    return set ? set->status : api::SampleSetStatus();
  }
  bool WaitReady(const std::string& name) {
    return WaitUntil([&] { return StatusOf(name).phase == "Ready"; }, std::chrono::seconds(60));
  }

  kube::testing::FakeCluster cluster_;
  kube::testing::FailingCluster client_{cluster_};
  testing::FakeRuntimes runtimes_;
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  const Context ctx_ = Context::Background();
  std::unique_ptr<Caches> caches_;
  std::unique_ptr<SetController> sets_;
  std::unique_ptr<kube::Manager> manager_;
  std::jthread runner_;
};

TEST_F(SetControllerTest, FromNothingToReadyAndBack) {
  Builtin builtin(cluster_);
  Start();
  CreateSet("s", 2);
  ASSERT_TRUE(WaitReady("s"));
  EXPECT_EQ(runtimes_.jobs(), 1u);
  EXPECT_EQ(cluster_.size(api::SecretObject::kType), 3u);
  ASSERT_OK(cluster_.Delete(ctx_, api::SampleSet::kType, {"data", "s"}));
  ASSERT_TRUE(WaitUntil([&] { return cluster_.size(api::SampleSet::kType) == 0; },
                        std::chrono::seconds(60)));
  EXPECT_EQ(cluster_.size(api::PersistentVolume::kType), 0u);
  EXPECT_EQ(cluster_.size(api::StatefulSet::kType), 0u);
  EXPECT_EQ(cluster_.size(api::SecretObject::kType), 1u) << "the user's own";
  EXPECT_EQ(runtimes_.purges(), 2);
}

TEST_F(SetControllerTest, ARuntimeThatIsAwayIsStillPurged) {
  Builtin builtin(cluster_);
  Start();
  CreateSet("s", 2);
  ASSERT_TRUE(WaitReady("s"));
  ASSERT_TRUE(WaitUntil(
      [&] {
        const auto partitions = StatusOf("s").partitions;
        return partitions.size() == 2 && !partitions[0].cache_id.empty() &&
               !partitions[1].cache_id.empty();
      },
      std::chrono::seconds(60)));
  runtimes_.SetAway(true);
  ASSERT_OK(cluster_.Delete(ctx_, api::SampleSet::kType, {"data", "s"}));
  ASSERT_TRUE(WaitUntil(
      [&] { return api::IsConditionTrue(StatusOf("s").conditions, condition::kDeletable); },
      std::chrono::seconds(60)));
  EXPECT_EQ(cluster_.size(api::StatefulSet::kType), 1u) << "its pods are to clean their nodes";
  runtimes_.SetAway(false);
  ASSERT_TRUE(WaitUntil([&] { return cluster_.size(api::SampleSet::kType) == 0; },
                        std::chrono::seconds(60)));
  EXPECT_GE(runtimes_.purges(), 2);
}

// Requests fail in every way they can, all the time; the end is the same as without.
TEST_F(SetControllerTest, FaultsDoNotChangeTheEnd) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::string name = fmt::format("s{}", seed);
    client_.FailRandomly(seed, 0.2);
    Builtin builtin(cluster_);
    Start();
    const auto before = runtimes_.jobs();
    CreateSet(name, 2);
    ASSERT_TRUE(WaitReady(name));
    EXPECT_EQ(runtimes_.jobs(), before + 1) << "imported once";
    client_.FailRandomly(0, 0);
    Stop();
  }
}

TEST_F(SetControllerTest, C24_ARestartedManagerPostsNothingTwice) {
  Builtin builtin(cluster_);
  runtimes_.SetOutcome(runtime::JobState::kRunning);
  Start();
  CreateSet("s", 1);
  ASSERT_TRUE(WaitUntil([&] { return runtimes_.jobs() == 1; }, std::chrono::seconds(60)));
  const std::string name = runtimes_.posts()[0].name;
  Stop();
  Start();
  runtimes_.SetState(name, runtime::JobState::kSucceeded);
  ASSERT_TRUE(WaitReady("s"));
  EXPECT_EQ(runtimes_.jobs(), 1u);
}

TEST_F(SetControllerTest, C8_AnObjectOfSomebodyElseIsReported) {
  Builtin builtin(cluster_);
  ASSERT_OK(cluster_.Create(
      ctx_, api::Service::kType, "data",
      R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"s-runtime-service"}})"));
  Start();
  CreateSet("s", 1);
  EXPECT_TRUE(WaitUntil(
      [&] {
        const auto status = StatusOf("s");
        const auto* accepted = api::FindCondition(status.conditions, "Accepted");
        return accepted != nullptr && accepted->reason == "NameTaken";
      },
      std::chrono::seconds(60)));
  ASSERT_OK(cluster_.Delete(ctx_, api::Service::kType, {"data", "s-runtime-service"}));
  EXPECT_TRUE(WaitReady("s"));
}

// Two sets may choose the same name before either sees that of the other.
TEST_F(SetControllerTest, C9_WhoIsSecondAtTheVolumeTakesALongName) {
  Builtin builtin(cluster_);
  CreateSet("s", 1);
  ASSERT_OK(kube::PatchStatus(ctx_, cluster_, api::SampleSet::kType, {"data", "s"}, "{}",
                              R"({"volumeName":"s","nodeLabel":"paddlepaddle.org/juicefs-s"})"));
  ASSERT_OK(cluster_.Create(ctx_, api::PersistentVolume::kType, "",
                            R"({"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"s",
                            "labels":{"paddlepaddle.org/sampleset-uid":"of another"}}})"));
  Start();
  ASSERT_TRUE(WaitReady("s"));
  const auto status = StatusOf("s");
  EXPECT_TRUE(status.volume_name.starts_with("s-")) << status.volume_name;
  EXPECT_EQ(status.node_label, "paddlepaddle.org/juicefs-" + status.volume_name);
  EXPECT_OK(cluster_.Get(ctx_, api::PersistentVolume::kType, {"", status.volume_name}));
  auto claim = cluster_.Get(ctx_, api::PersistentVolumeClaim::kType, {"data", "s"});
  ASSERT_OK(claim);
  EXPECT_EQ(Json::parse(claim->json)["spec"]["volumeName"], status.volume_name);
}

TEST(SetControllerSettings, Validate) {
  EXPECT_OK(ControllerSettings().Validate());
  EXPECT_CODE((ControllerSettings{.runtime_image = ""}).Validate(), Code::kInvalid);
  EXPECT_CODE((ControllerSettings{.mount_root = "mnt"}).Validate(), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::controllers::sampleset
