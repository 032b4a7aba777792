#include "api/core/objects.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/matchers.h"

namespace paddleop::api {
namespace {

template <class T>
T Read(const char* text) {
  const auto json = ParseJson(text);
  EXPECT_OK(json);
  auto object = T::FromJson(*json);
  EXPECT_OK(object);
  return *std::move(object);
}

TEST(SecretObject, DecodesAndTrims) {
  const auto secret = Read<SecretObject>(
      R"({"metadata": {"name": "s"}, "type": "Opaque", "data": {"metaurl": "cmVkaXM6Ly8xCg==", "blank": "Cg=="}})");
  EXPECT_EQ(secret.Value("metaurl").Reveal(), "redis://1");
  EXPECT_TRUE(secret.Value("blank").empty());
  EXPECT_TRUE(secret.Value("absent").empty());
  EXPECT_TRUE(secret.Has("blank"));
  EXPECT_EQ(fmt::to_string(secret.Value("metaurl")), "***");
  const auto bad =
      SecretObject::FromJson(Json{{"metadata", {{"name", "s"}}}, {"data", {{"k", "%%"}}}});
  ASSERT_CODE(bad, Code::kInvalid);
  EXPECT_EQ(bad.error().message(), "secret s: value of \"k\" is not base64");
}

TEST(Node, KnowsWhetherItIsReady) {
  const auto node = Read<Node>(
      R"({"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"unschedulable": true},
    "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
               "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.9"}]}})");
  EXPECT_TRUE(node.ready);
  EXPECT_TRUE(node.unschedulable);
  EXPECT_EQ(node.internal_ip, "10.0.0.9");
}

TEST(Objects, ReadTheirFields) {
  EXPECT_EQ(Read<ConfigMap>(R"({"metadata": {"name": "c"}, "data": {"A": "1"}})").data,
            (StringMap{{"A", "1"}}));
  EXPECT_EQ(
      Read<Service>(
          R"({"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}})")
          .cluster_ip,
      "None");
  EXPECT_EQ(
      Read<StatefulSet>(
          R"({"metadata": {"name": "s"}, "spec": {"replicas": 3}, "status": {"readyReplicas": 2}})")
          .ready_replicas,
      2);
  EXPECT_EQ(Read<PersistentVolume>(
                R"({"metadata": {"name": "p"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h"},
            "claimRef": {"namespace": "n", "name": "c"}}, "status": {"phase": "Bound"}})")
                .claim.ns,
            "n");
  EXPECT_EQ(
      Read<PersistentVolumeClaim>(R"({"metadata": {"name": "p"}, "spec": {"volumeName": "v"}})")
          .volume_name,
      "v");
  EXPECT_EQ(
      Read<Event>(R"({"metadata": {"name": "e"}, "involvedObject": {"name": "x"}, "count": 4})")
          .count,
      4);
  EXPECT_EQ(Read<Namespace>(R"({"metadata": {"name": "e"}, "status": {"phase": "Active"}})").phase,
            "Active");
  const auto lease = Read<Lease>(R"({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me",
    "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:00:01.500000Z"}})");
  EXPECT_EQ(lease.holder, "me");
  EXPECT_EQ(lease.renew_time,
            std::chrono::system_clock::time_point(std::chrono::milliseconds(1500)));
}

TEST(PodGroup, KnowsWhoWroteIt) {
  const auto ours = Read<PodGroup>(
      R"({"metadata": {"name": "g"}, "spec": {"minMember": 4}, "status": {"phase": "Inqueue"}})");
  EXPECT_EQ(ours.min_member, 4);
  EXPECT_EQ(ours.phase, "Inqueue");
  EXPECT_FALSE(ours.applied_by_user);
  EXPECT_TRUE(Read<PodGroup>(R"({"metadata": {"name": "g",
      "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}})")
                  .applied_by_user);
}

}  // namespace
}  // namespace paddleop::api
