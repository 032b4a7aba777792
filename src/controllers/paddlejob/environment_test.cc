#include "controllers/paddlejob/environment.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controllers/paddlejob/testing/world.h"

namespace paddleop::controllers::paddlejob {
namespace {

using testing::EnvOf;
using testing::RoleJson;
using testing::World;

// Brings all pods of the job an address: its ConfigMap exists then.
void Open(World& world) {
  world.Settle();
  world.PlaceAll();
  world.Settle();
  ASSERT_NE(world.config_map(), nullptr);
}

std::string Ip(World& world, const std::string& pod) { return world.FindPod(pod)->pod_ip; }

TEST(Environment, CollectiveByAddress) {
  World world(fmt::format(R"({{"worker":{}}})", RoleJson(2)));
  Open(world);
  const std::string a = Ip(world, "j-worker-0");
  const std::string b = Ip(world, "j-worker-1");
  const api::StringMap expected = {{"PADDLE_JOB_ID", "default-j"},
                                   {"PADDLE_MASTER", a + ":2379"},
                                   {"PADDLE_NNODES", "2"},
                                   {"PADDLE_PORT", "2379"},
                                   {"PADDLE_TRAINERS", a + "," + b},
                                   {"PADDLE_TRAINERS_NUM", "2"},
                                   {"PADDLE_TRAINER_ENDPOINTS", a + ":2379," + b + ":2379"},
                                   {"TRAINER_PORTS_NUM", "20"}};
  EXPECT_EQ(world.config_map()->data, expected);
  const auto pod = world.PodJson("j-worker-1");
  EXPECT_EQ(EnvOf(pod, "POD_IP"), "$status.podIP");
  EXPECT_EQ(EnvOf(pod, "PADDLE_TRAINER_ID"), "1");
  EXPECT_EQ(EnvOf(pod, "PADDLE_RANK"), "1");
  EXPECT_EQ(EnvOf(pod, "TRAINING_ROLE"), "TRAINER");
  EXPECT_EQ(EnvOf(pod, "PADDLE_TRAINING_ROLE"), "TRAINER");
  EXPECT_EQ(EnvOf(pod, "PADDLE_CURRENT_ENDPOINT"), "$(POD_IP):2379");
  EXPECT_EQ(EnvOf(pod, "PADDLE_DISTRI_BACKEND"), "gloo");
  EXPECT_EQ(pod["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"], "j");
  EXPECT_FALSE(pod["spec"]["containers"][0]["envFrom"][0]["configMapRef"].contains("optional"));
}

TEST(Environment, AnAcceleratorKeepsPaddlesOwnBackend) {
  World world(fmt::format(
      R"({{"worker":{}}})",
      RoleJson(
          2,
          R"({"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":1,"cpu":"2"}}}]})")));
  world.Settle();
  EXPECT_EQ(EnvOf(world.PodJson("j-worker-0"), "PADDLE_DISTRI_BACKEND"), "");
}

TEST(Environment, TheUsersHintsWin) {
  World world(fmt::format(R"({{"worker":{}}})", RoleJson(2, R"({"containers":[{"name":"c","env":[
      {"name":"PADDLE_DISTRI_BACKEND","value":"nccl"},{"name":"PADDLE_RANK","value":"7"}]}]})")));
  world.Settle();
  const auto pod = world.PodJson("j-worker-0");
  EXPECT_EQ(EnvOf(pod, "PADDLE_DISTRI_BACKEND"), "nccl");
  EXPECT_EQ(EnvOf(pod, "PADDLE_RANK"), "7");
}

TEST(Environment, CollectiveByServiceName) {
  World world(fmt::format(R"({{"intranet":"Service","worker":{}}})", RoleJson(3)));
  Open(world);
  EXPECT_EQ(world.config_map()->data.at("PADDLE_TRAINER_ENDPOINTS"),
            "j-worker-0:2379,j-worker-1:2379,j-worker-2:2379");
  const auto first = world.PodJson("j-worker-0");
  EXPECT_EQ(EnvOf(first, "POD_IP"), "j-worker-0");
  EXPECT_EQ(EnvOf(first, "PADDLE_POD_ADDRESS"), "$status.podIP");
  EXPECT_EQ(EnvOf(first, "PADDLE_CURRENT_ENDPOINT"), "$(PADDLE_POD_ADDRESS):2379");
  EXPECT_EQ(EnvOf(first, "PADDLE_MASTER"), "$(PADDLE_POD_ADDRESS):2379");
  EXPECT_EQ(EnvOf(first, "PADDLE_TRAINER_ENDPOINTS"),
            "$(PADDLE_POD_ADDRESS):2379,j-worker-1:2379,j-worker-2:2379");
  const auto second = world.PodJson("j-worker-1");
  EXPECT_EQ(EnvOf(second, "PADDLE_TRAINER_ENDPOINTS"), "");
  EXPECT_EQ(EnvOf(second, "PADDLE_CURRENT_ENDPOINT"), "$(POD_IP):2379");
  EXPECT_EQ(first["spec"]["containers"][0]["ports"][0]["containerPort"], 2379);
  EXPECT_EQ(first["spec"]["hostname"], "j-worker-0");
  EXPECT_EQ(first["spec"]["subdomain"], "j-worker-0");
}

TEST(Environment, ParameterServers) {
  World world(fmt::format(R"({{"withGloo":1,"ps":{},"worker":{}}})", RoleJson(2), RoleJson(1)));
  Open(world);
  const auto& data = world.config_map()->data;
  const std::string server = Ip(world, "j-ps-0");
  EXPECT_EQ(data.at("PADDLE_PSERVERS_IP_PORT_LIST"),
            server + ":2379," + Ip(world, "j-ps-1") + ":2379");
  EXPECT_EQ(data.at("PADDLE_WITH_GLOO"), "1");
  EXPECT_EQ(data.at("PADDLE_GLOO_RENDEZVOUS"), "3");
  EXPECT_EQ(data.at("PADDLE_GLOO_HTTP_ENDPOINT"), server + ":2397");
  EXPECT_FALSE(data.contains("PADDLE_MASTER"))
      << "it would make a launcher take the job for a collective one";
  EXPECT_EQ(EnvOf(world.PodJson("j-ps-1"), "TRAINING_ROLE"), "PSERVER");
  EXPECT_EQ(EnvOf(world.PodJson("j-ps-1"), "PADDLE_TRAINER_ID"), "1");
  EXPECT_EQ(EnvOf(world.PodJson("j-worker-0"), "PADDLE_RANK"), "");
}

TEST(Environment, GlooIsOffByDefault) {
  World world(fmt::format(R"({{"ps":{},"worker":{}}})", RoleJson(1), RoleJson(1)));
  Open(world);
  EXPECT_FALSE(world.config_map()->data.contains("PADDLE_WITH_GLOO"));
}

TEST(Environment, ElasticServesBothLaunchers) {
  World world(
      fmt::format(
          R"({{"elastic":1,"worker":{}}})",
          R"({"replicas":2,"requests":1,"limits":4,"template":{"spec":{"containers":[{"name":"c"}]}}})"),
      "j", {.etcd_servers = {"etcd-0:2379", "etcd-1:2379"}});
  world.Settle();
  const auto pod = world.PodJson("j-worker-0");
  EXPECT_EQ(EnvOf(pod, "PADDLE_ELASTIC_JOB_ID"), "default-j");
  EXPECT_EQ(EnvOf(pod, "PADDLE_ELASTIC_NP"), "2");
  EXPECT_EQ(EnvOf(pod, "PADDLE_ELASTIC_TIMEOUT"), "60");
  EXPECT_EQ(EnvOf(pod, "PADDLE_ELASTIC_SERVER"), "etcd-0:2379");
  EXPECT_EQ(EnvOf(pod, "PADDLE_MASTER"), "etcd://etcd-0:2379");
  EXPECT_EQ(EnvOf(pod, "PADDLE_NNODES"), "1:4");
  EXPECT_EQ(EnvOf(pod, "PADDLE_JOB_ID"), "default-j");
  EXPECT_EQ(EnvOf(pod, "PADDLE_TRAINERS"), "j-worker-0,j-worker-1");
  EXPECT_EQ(EnvOf(pod, "PADDLE_TRAINER_ENDPOINTS"), "");
  EXPECT_EQ(EnvOf(pod, "PADDLE_RANK"), "");
  EXPECT_FALSE(pod["spec"]["containers"][0].contains("envFrom"));
}

TEST(Environment, ElasticBoundsDefaultToTheReplicas) {
  World world(fmt::format(R"({{"elastic":0,"worker":{}}})", RoleJson(3)), "j",
              {.etcd_servers = {"e:1"}});
  world.Settle();
  EXPECT_EQ(EnvOf(world.PodJson("j-worker-0"), "PADDLE_NNODES"), "1:3");
}

}  // namespace
}  // namespace paddleop::controllers::paddlejob
