#include "standalone/node/kubelet/kubelet.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/wait_until.h"
#include "standalone/node/agent.h"

namespace paddleop::standalone::node {
namespace {

using Json = nlohmann::json;
using kube::ObjectKey;
using kube::testing::WaitUntil;

// An agent with scheduler and built-in controllers on a cluster in memory; pods are real processes.
class KubeletTest : public ::testing::Test {
 protected:
  struct Running {
    std::unique_ptr<Agent> agent;
    std::unique_ptr<kube::Manager> manager;
    std::stop_source stop;
    std::jthread thread;
  };

  void SetUp() override { Start(); }
  void TearDown() override {
    if (running_) Stop(true);
  }

  void Start() {
    AgentOptions options;
    options.scheduler = true;
    options.builtin_controllers = true;
    options.kubelet.data_dir = dir_->path();
    options.kubelet.nodes = {"node-0", "node-1"};
    options.kubelet.base_environment = HostEnvironment();
    options.kubelet.delays = {.first = std::chrono::milliseconds(200),
                              .most = std::chrono::seconds(1)};
    running_ = std::make_unique<Running>();
    auto agent = Agent::Create(ctx_, std::move(options), cluster_, log_, metrics_);
    ASSERT_OK(agent);
    running_->agent = *std::move(agent);
    running_->manager = std::make_unique<kube::Manager>(
        kube::ManagerOptions{.metrics_address = "0", .health_address = "0"}, cluster_, log_,
        metrics_);
    running_->agent->AddTo(*running_->manager);
    running_->thread = std::jthread([this] {
      EXPECT_OK(running_->manager->Run(Context::Background().WithStop(running_->stop.get_token())));
    });
  }
  // Without `pods` the agent goes and leaves the processes, as if it had been killed.
  void Stop(bool pods) {
    running_->stop.request_stop();
    running_->thread.join();
    if (pods) running_->agent->Stop(ctx_);
    running_.reset();
  }

  void Create(const std::string& name, Json spec) {
    spec["terminationGracePeriodSeconds"] = 1;
    const Json pod = {{"apiVersion", "v1"},
                      {"kind", "Pod"},
                      {"metadata", {{"name", name}}},
                      {"spec", std::move(spec)}};
    ASSERT_OK(cluster_.Create(ctx_, kube::kPods, "default", pod.dump()));
  }
  static Json Container(const std::string& script) {
    return {{"name", "main"}, {"image", "none"}, {"command", {"sh", "-c", script}}};
  }
  Json Get(const std::string& name) {
    const auto raw = cluster_.Get(ctx_, kube::kPods, {"default", name});
    return raw ? Json::parse(raw->json) : Json();
  }
  bool Reaches(const std::string& name, const std::string& phase) {
    const bool reached = WaitUntil(
        [&] {
          const Json pod = Get(name);
          return pod.is_object() && pod["status"].value("phase", "") == phase;
        },
        std::chrono::seconds(60));
    EXPECT_TRUE(reached) << Get(name).dump();
    return reached;
  }
  std::string WaitingReason(const std::string& name) {
    const Json pod = Get(name);
    if (!pod.is_object()) return "";
    return pod.value(Json::json_pointer("/status/containerStatuses/0/state/waiting/reason"), "");
  }
  bool HasEvent(const std::string& name, const std::string& reason) {
    return WaitUntil([&] {
      const auto page = cluster_.List(ctx_, kube::kEvents, "default", {});
      for (const auto& raw : page->items) {
        const Json event = Json::parse(raw.json);
        if (event["involvedObject"]["name"] == name && event["reason"] == reason) return true;
      }
      return false;
    });
  }

  const Context ctx_ = Context::Background();
  Result<TempDir> dir_ = TempDir::Create();
  Logger log_{LogLevel::kError};
  MetricsRegistry metrics_;
  kube::testing::FakeCluster cluster_;
  std::unique_ptr<Running> running_;
};

TEST_F(KubeletTest, APodWaitsForItsConfigMapAndRunsToItsEnd) {
  Create("gated",
         {{"restartPolicy", "Never"},
          {"containers",
           {{{"name", "main"},
             {"image", "none"},
             {"command", {"sh", "-c", R"(test "$WORLD" = 2 && test -n "$IP")"}},
             {"env",
              {{{"name", "IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}}}},
             {"envFrom", {{{"configMapRef", {{"name", "gate"}}}}}}}}}});
  ASSERT_TRUE(WaitUntil([&] { return WaitingReason("gated") == "CreateContainerConfigError"; },
                        std::chrono::seconds(60)));
  Json pod = Get("gated");
  EXPECT_EQ(pod["status"]["phase"], "Pending");
  EXPECT_TRUE(pod["status"].value("podIP", "").starts_with("127."));
  EXPECT_EQ(pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"],
            "configmap \"gate\" not found");
  const Json map = {{"apiVersion", "v1"},
                    {"kind", "ConfigMap"},
                    {"metadata", {{"name", "gate"}}},
                    {"data", {{"WORLD", "2"}}}};
  ASSERT_OK(cluster_.Create(ctx_, kube::kConfigMaps, "default", map.dump()));
  ASSERT_TRUE(Reaches("gated", "Succeeded"));
  pod = Get("gated");
  EXPECT_EQ(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
  EXPECT_TRUE(HasEvent("gated", "HostProcess"));
  EXPECT_TRUE(HasEvent("gated", "Scheduled"));
}

TEST_F(KubeletTest, ExitCodesAndPoliciesDecide) {
  Create("fails", {{"restartPolicy", "Never"}, {"containers", {Container("exit 3")}}});
  Create("missing",
         {{"restartPolicy", "Never"},
          {"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"no-such-program"}}}}}});
  Create("again",
         {{"restartPolicy", "OnFailure"},
          {"containers", {Container("if test -e here; then exit 0; fi; touch here; exit 1")}}});
  ASSERT_TRUE(Reaches("fails", "Failed"));
  EXPECT_EQ(Get("fails")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
  ASSERT_TRUE(Reaches("missing", "Failed"));
  const Json ended = Get("missing")["status"]["containerStatuses"][0]["state"]["terminated"];
  EXPECT_EQ(ended["reason"], "StartError");
  EXPECT_EQ(ended["exitCode"], 128);
  ASSERT_TRUE(Reaches("again", "Succeeded"));
  EXPECT_EQ(Get("again")["status"]["containerStatuses"][0]["restartCount"], 1);
}

TEST_F(KubeletTest, InitContainersComeFirstAndAContainerWithoutCommandWaits) {
  Create("waits", {{"restartPolicy", "Always"},
                   {"initContainers", {{{"name", "first"}, {"image", "i"}, {"command", {"true"}}}}},
                   {"containers", {{{"name", "main"}, {"image", "i"}}}}});
  ASSERT_TRUE(Reaches("waits", "Running"));
  EXPECT_TRUE(HasEvent("waits", "NoCommand"));
  EXPECT_EQ(Get("waits")["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"],
            "Completed");
  ASSERT_OK(cluster_.Delete(ctx_, kube::kPods, {"default", "waits"}));
  EXPECT_TRUE(WaitUntil([&] { return std::filesystem::is_empty(dir_->path() + "/pods"); },
                        std::chrono::seconds(60)));
}

TEST_F(KubeletTest, TheNextAgentTakesUpWhatRuns) {
  Create("long", {{"restartPolicy", "Never"},
                  {"containers", {Container("while ! test -e go; do sleep 0.05; done; exit 5")}}});
  ASSERT_TRUE(Reaches("long", "Running"));
  const std::string uid = Get("long")["metadata"]["uid"];
  Stop(false);
  ASSERT_OK(WriteFileAtomic(dir_->path() + "/pods/" + uid + "/work/main/go", ""));
  Start();
  ASSERT_TRUE(Reaches("long", "Failed"));
  const Json status = Get("long")["status"]["containerStatuses"][0];
  EXPECT_EQ(status["state"]["terminated"]["exitCode"], 5);
  EXPECT_EQ(status["restartCount"], 0);
}

TEST_F(KubeletTest, WhatTheClusterForgotIsEnded) {
  Create("lost", {{"containers", {Container("sleep 600")}}});
  ASSERT_TRUE(Reaches("lost", "Running"));
  const std::string uid = Get("lost")["metadata"]["uid"];
  const auto state = ReadState(dir_->path() + "/pods/" + uid + "/containers/main/1");
  ASSERT_TRUE(state);
  Stop(false);
  ASSERT_OK(cluster_.Delete(ctx_, kube::kPods, {"default", "lost"},
                            {.grace_period = std::chrono::seconds(0)}));
  Start();
  EXPECT_TRUE(WaitUntil([&] { return !state->shim.Alive(); }, std::chrono::seconds(60)));
  EXPECT_TRUE(WaitUntil([&] { return std::filesystem::is_empty(dir_->path() + "/pods"); },
                        std::chrono::seconds(60)));
}

TEST_F(KubeletTest, ProbesMakeReadyAndRestart) {
  Json container = Container("sleep 600");
  container["readinessProbe"] = {{"exec", {{"command", {"test", "-e", "ready"}}}},
                                 {"periodSeconds", 1},
                                 {"timeoutSeconds", 10}};
  container["livenessProbe"] = {{"exec", {{"command", {"test", "!", "-e", "sick"}}}},
                                {"periodSeconds", 1},
                                {"failureThreshold", 1},
                                {"timeoutSeconds", 10}};
  Create("probed", {{"containers", {container}}});
  ASSERT_TRUE(Reaches("probed", "Running"));
  const auto status = [&] { return Get("probed")["status"]["containerStatuses"][0]; };
  EXPECT_EQ(status()["ready"], false);
  const std::string uid = Get("probed")["metadata"]["uid"];
  const std::string work = dir_->path() + "/pods/" + uid + "/work/main";
  ASSERT_OK(WriteFileAtomic(work + "/ready", ""));
  EXPECT_TRUE(WaitUntil([&] { return status()["ready"] == true; }, std::chrono::seconds(60)));
  ASSERT_OK(WriteFileAtomic(work + "/sick", ""));
  EXPECT_TRUE(
      WaitUntil([&] { return status().value("restartCount", 0) >= 1; }, std::chrono::seconds(60)));
  EXPECT_TRUE(HasEvent("probed", "Unhealthy"));
}

TEST_F(KubeletTest, StatefulSetsAndClaims) {
  const Json set = {
      {"apiVersion", "apps/v1"},
      {"kind", "StatefulSet"},
      {"metadata", {{"name", "web"}}},
      {"spec",
       {{"replicas", 2},
        {"serviceName", "web"},
        {"template",
         {{"metadata", {{"labels", {{"app", "web"}}}}},
          {"spec",
           {{"terminationGracePeriodSeconds", 1}, {"containers", {Container("sleep 600")}}}}}}}}};
  ASSERT_OK(cluster_.Create(ctx_, kube::kStatefulSets, "default", set.dump()));
  const auto ready = [&] {
    const auto raw = cluster_.Get(ctx_, kube::kStatefulSets, {"default", "web"});
    return Json::parse(raw->json).value(Json::json_pointer("/status/readyReplicas"), 0);
  };
  EXPECT_TRUE(WaitUntil([&] { return ready() == 2; }, std::chrono::seconds(60)));
  EXPECT_NE(Get("web-0")["spec"]["nodeName"], Get("web-1")["spec"]["nodeName"]);
  const Json volume = {
      {"apiVersion", "v1"},
      {"kind", "PersistentVolume"},
      {"metadata", {{"name", "pv"}}},
      {"spec", {{"capacity", {{"storage", "1Gi"}}}, {"accessModes", {"ReadOnlyMany"}}}}};
  ASSERT_OK(cluster_.Create(ctx_, kube::kPersistentVolumes, "", volume.dump()));
  const Json claim = {
      {"apiVersion", "v1"},
      {"kind", "PersistentVolumeClaim"},
      {"metadata", {{"name", "pvc"}}},
      {"spec",
       {{"accessModes", {"ReadOnlyMany"}}, {"resources", {{"requests", {{"storage", "1Mi"}}}}}}}};
  ASSERT_OK(cluster_.Create(ctx_, kube::kPersistentVolumeClaims, "default", claim.dump()));
  const auto phase = [&](const kube::GroupVersionResource& resource, const ObjectKey& key) {
    const auto raw = cluster_.Get(ctx_, resource, key);
    return Json::parse(raw->json).value(Json::json_pointer("/status/phase"), "");
  };
  EXPECT_TRUE(WaitUntil(
      [&] { return phase(kube::kPersistentVolumeClaims, {"default", "pvc"}) == "Bound"; }));
  EXPECT_TRUE(WaitUntil([&] { return phase(kube::kPersistentVolumes, {"", "pv"}) == "Bound"; }));
  ASSERT_OK(cluster_.Delete(ctx_, kube::kPersistentVolumeClaims, {"default", "pvc"}));
  EXPECT_TRUE(WaitUntil([&] { return phase(kube::kPersistentVolumes, {"", "pv"}) == "Released"; }));
}

}  // namespace
}  // namespace paddleop::standalone::node
