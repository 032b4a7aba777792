#include "api/core/pod.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

Pod Read(const char* text) {
  const auto json = ParseJson(text);
  EXPECT_OK(json);
  auto pod = Pod::FromJson(*json);
  EXPECT_OK(pod);
  return *std::move(pod);
}

TEST(Pod, ReadsARunningPod) {
  const Pod pod = Read(R"({
    "metadata": {"name": "j-worker-0", "namespace": "n", "uid": "u"},
    "spec": {"nodeName": "node-1", "hostNetwork": true, "containers": [{"name": "c"}]},
    "status": {"phase": "Running", "podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}, {"ip": "10.0.0.1"}],
      "hostIP": "1.2.3.4", "startTime": "2024-02-29T12:34:56Z",
      "conditions": [{"type": "Ready", "status": "True"}],
      "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}],
      "containerStatuses": [{"name": "c", "ready": true, "restartCount": 2, "state": {"running": {}}}]}})");
  EXPECT_EQ(pod.phase, PodPhase::kRunning);
  EXPECT_TRUE(pod.FullyRunning());
  EXPECT_TRUE(pod.ready);
  EXPECT_TRUE(pod.host_network);
  EXPECT_EQ(pod.pod_ips, (std::vector<std::string>{"fd00::1", "10.0.0.1"}));
  EXPECT_EQ(pod.containers[0].restart_count, 2);
}

TEST(Pod, ReadsWhyItWaits) {
  const Pod pod = Read(R"({
    "metadata": {"name": "a"},
    "status": {"phase": "Pending",
      "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                      "lastTransitionTime": "1970-01-01T00:00:10Z", "message": "no node"}],
      "containerStatuses": [{"name": "c", "ready": false, "state": {"waiting": {"reason": "CreateContainerConfigError"}}}]}})");
  EXPECT_FALSE(pod.FullyRunning());
  EXPECT_EQ(pod.unschedulable_since, Time(std::chrono::seconds(10)));
  EXPECT_EQ(pod.unschedulable_message, "no node");
  EXPECT_EQ(pod.containers[0].reason, "CreateContainerConfigError");
}

TEST(Pod, ReadsHowItEnded) {
  const Pod pod = Read(R"({"metadata": {"name": "a"},
    "status": {"phase": "Failed", "reason": "Evicted", "message": "disk",
      "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}})");
  EXPECT_TRUE(pod.Finished());
  EXPECT_EQ(pod.containers[0].exit_code, 137);
  EXPECT_EQ(pod.containers[0].reason, "OOMKilled");
  EXPECT_EQ(pod.reason, "Evicted");
}

TEST(Pod, ToleratesOddStatus) {
  EXPECT_EQ(Read(R"({"metadata": {"name": "a"}, "status": 5})").phase, PodPhase::kUnknown);
  EXPECT_EQ(Read(R"({"metadata": {"name": "a"}, "status": {"containerStatuses": {"x": 1}}})")
                .containers.size(),
            0u);
}

}  // namespace
}  // namespace paddleop::api
