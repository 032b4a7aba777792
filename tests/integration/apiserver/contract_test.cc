// Standalone's API server by our own client: the contract that a real API server keeps, and what is
// particular to ours.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/crypto.h"
#include "base/posix.h"
#include "kube/cache/informer.h"
#include "kube/client/http_cluster_client.h"
#include "kube/testing/cluster_client_contract.h"
#include "standalone/apiserver/api_server.h"

namespace paddleop::kube::testing {
namespace {

using standalone::apiserver::ApiServer;
using standalone::apiserver::ApiServerOptions;
using Json = nlohmann::json;

// One server for the whole program, as in a cluster.
class Server {
 public:
  Server() : dir_(*TempDir::Create("apiserver")) { Start(); }

  void Start() {
    auto server = ApiServer::Start({.data_dir = dir_.path()}, log_, metrics_);
    ASSERT_OK(server);
    server_ = *std::move(server);
  }
  void Stop() { server_.reset(); }
  ApiServer& get() { return *server_; }
  const std::string& dir() const { return dir_.path(); }

  std::unique_ptr<HttpClusterClient> Connect() {
    auto config = LoadKubeconfig(server_->kubeconfig_file());
    EXPECT_OK(config);
    auto client = HttpClusterClient::Create(*std::move(config), {}, metrics_);
    EXPECT_OK(client);
    return *std::move(client);
  }
  MetricsRegistry& metrics() { return metrics_; }

 private:
  TempDir dir_;
  Logger log_{LogLevel::kWarn};
  MetricsRegistry metrics_;
  std::unique_ptr<ApiServer> server_;
};

Server& Shared() {
  static Server server;
  return server;
}

std::string NewNamespace(ClusterClient& client) {
  const auto made =
      client.Create(Context::Background(), kNamespaces, "",
                    R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t-)" +
                        HexEncode(RandomBytes(6)) + R"("}})");
  EXPECT_OK(made);
  return made ? made->name : "";
}

class OwnCluster : public ContractCluster {
 public:
  ClusterClient& client() override { return *client_; }
  std::string ns() override { return ns_; }

 private:
  std::unique_ptr<HttpClusterClient> client_ = Shared().Connect();
  std::string ns_ = NewNamespace(*client_);
};

INSTANTIATE_TEST_SUITE_P(Standalone, ClusterClientContract,
                         ::testing::Values(+[]() -> std::unique_ptr<ContractCluster> {
                           return std::make_unique<OwnCluster>();
                         }));

constexpr GroupVersionResource kJobs{"batch.paddlepaddle.org", "v1", "paddlejobs", "PaddleJob"};

class ApiServerTest : public ::testing::Test {
 protected:
  Json Read(const RawObject& object) { return Json::parse(object.json); }
  static std::string Job(const std::string& name, const std::string& more = "") {
    return R"({"apiVersion":"batch.paddlepaddle.org/v1","kind":"PaddleJob","metadata":{"name":")" +
           name +
           R"("},"spec":{"worker":{"replicas":1,"template":{"spec":{"containers":[{"name":"c",)" +
           R"("image":"i"}]}}})" + more + "}}";
  }
  bool Gone(const GroupVersionResource& resource, const std::string& name) {
    return WaitUntil([&] { return !client_->Get(ctx_, resource, {ns_, name}); },
                     std::chrono::seconds(60));
  }
  std::string OwnedBy(const RawObject& owner, bool blocks) {
    return R"("ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":")" + owner.name +
           R"(","uid":")" + owner.uid + R"(","blockOwnerDeletion":)" + (blocks ? "true" : "false") +
           "}]";
  }

  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(120));
  std::unique_ptr<ClusterClient> client_ = Shared().Connect();
  std::string ns_ = NewNamespace(*client_);
};

TEST_F(ApiServerTest, WhatIsOwnedGoesWithItsOwner) {
  const auto owner = client_->Create(ctx_, kConfigMaps, ns_, ConfigMapJson("owner"));
  ASSERT_OK(owner);
  ASSERT_OK(
      client_->Create(ctx_, kConfigMaps, ns_, ConfigMapJson("owned", "1", OwnedBy(*owner, false))));
  ASSERT_OK(client_->Delete(ctx_, kConfigMaps, {ns_, "owner"}));
  EXPECT_TRUE(Gone(kConfigMaps, "owned"));
}

TEST_F(ApiServerTest, AForegroundDeletionWaitsForItsDependents) {
  const auto owner = client_->Create(ctx_, kConfigMaps, ns_, ConfigMapJson("owner"));
  ASSERT_OK(owner);
  const auto owned = client_->Create(
      ctx_, kConfigMaps, ns_,
      ConfigMapJson("owned", "1", OwnedBy(*owner, true) + R"(,"finalizers":["example.org/held"])"));
  ASSERT_OK(owned);
  ASSERT_OK(client_->Delete(ctx_, kConfigMaps, {ns_, "owner"},
                            {.propagation = Propagation::kForeground}));
  ASSERT_TRUE(WaitUntil([&] {
    const auto now = client_->Get(ctx_, kConfigMaps, {ns_, "owned"});
    return now && now->deleting;
  }));
  EXPECT_OK(client_->Get(ctx_, kConfigMaps, {ns_, "owner"}));
  ASSERT_OK(RemoveFinalizer(ctx_, *client_, kConfigMaps, *owned, "example.org/held"));
  EXPECT_TRUE(Gone(kConfigMaps, "owner"));
}

TEST_F(ApiServerTest, AnOrphanOutlivesItsOwner) {
  const auto owner = client_->Create(ctx_, kConfigMaps, ns_, ConfigMapJson("owner"));
  ASSERT_OK(owner);
  ASSERT_OK(
      client_->Create(ctx_, kConfigMaps, ns_, ConfigMapJson("owned", "1", OwnedBy(*owner, true))));
  ASSERT_OK(
      client_->Delete(ctx_, kConfigMaps, {ns_, "owner"}, {.propagation = Propagation::kOrphan}));
  EXPECT_TRUE(Gone(kConfigMaps, "owner"));
  const auto orphan = client_->Get(ctx_, kConfigMaps, {ns_, "owned"});
  ASSERT_OK(orphan);
  EXPECT_TRUE(orphan->owners.empty());
}

TEST_F(ApiServerTest, ANamespaceTakesItsContentWithIt) {
  ASSERT_OK(client_->Create(ctx_, kConfigMaps, ns_, ConfigMapJson("a")));
  ASSERT_OK(client_->Create(ctx_, kPods, ns_, PodJson("p")));
  ASSERT_OK(client_->Delete(ctx_, kNamespaces, {"", ns_}));
  EXPECT_TRUE(WaitUntil([&] { return !client_->Get(ctx_, kNamespaces, {"", ns_}); },
                        std::chrono::seconds(60)));
  EXPECT_CODE(client_->Get(ctx_, kPods, {ns_, "p"}), Code::kNotFound);
  EXPECT_CODE(client_->Create(ctx_, kConfigMaps, ns_, ConfigMapJson("late")), Code::kNotFound);
}

TEST_F(ApiServerTest, OurKindsAreDefaultedCheckedAndPruned) {
  const auto made = client_->Create(ctx_, kJobs, ns_, Job("a", R"(,"unknown":1)"));
  ASSERT_OK(made);
  EXPECT_FALSE(Read(*made)["spec"].contains("unknown"));
  EXPECT_EQ(made->generation, 1);
  const auto bad = client_->Create(ctx_, kJobs, ns_, Job("b", R"(,"intranet":"Other")"));
  EXPECT_CODE(bad, Code::kInvalid);
  EXPECT_THAT(bad.error().message(), ::testing::HasSubstr("intranet must be PodIP"));
  const auto typed = client_->Create(ctx_, kJobs, ns_, Job("c", R"(,"withGloo":"one")"));
  EXPECT_CODE(typed, Code::kInvalid);
  EXPECT_THAT(typed.error().message(), ::testing::HasSubstr("spec.withGloo"));
}

TEST_F(ApiServerTest, EveryRuleRefusesWhatTheCrdRefuses) {
  const auto text = ReadFile(GetEnv("PADDLEOP_SOURCE_DIR") + "/tests/data/validation.json");
  ASSERT_OK(text);
  const Json cases = Json::parse(*text);
  const std::map<std::string, GroupVersionResource> resources = {
      {"PaddleJob", kJobs},
      {"SampleSet", {"batch.paddlepaddle.org", "v1alpha1", "samplesets", "SampleSet"}},
      {"SampleJob", {"batch.paddlepaddle.org", "v1alpha1", "samplejobs", "SampleJob"}}};
  int number = 0;
  for (const Json& one : cases["create"]) {
    SCOPED_TRACE(one["case"].get<std::string>());
    const auto& resource = resources.at(one["kind"]);
    const std::string ns = NewNamespace(*client_);
    const auto made = client_->Create(ctx_, resource, ns,
                                      Json{{"apiVersion", resource.ApiVersion()},
                                           {"kind", resource.kind},
                                           {"metadata", {{"name", one["name"]}}},
                                           {"spec", one["spec"]}}
                                          .dump());
    EXPECT_EQ(made.has_value(), one["refused"].empty()) << (made ? "" : made.error().message());
    for (const Json& message : one["refused"]) {
      EXPECT_THAT(made ? "accepted" : made.error().message(),
                  ::testing::HasSubstr(message.get<std::string>()));
    }
    ++number;
  }
  EXPECT_GT(number, 50);
}

TEST_F(ApiServerTest, RulesAboutChangesHold) {
  const auto text = ReadFile(GetEnv("PADDLEOP_SOURCE_DIR") + "/tests/data/validation.json");
  ASSERT_OK(text);
  const GroupVersionResource sets{"batch.paddlepaddle.org", "v1alpha1", "samplesets", "SampleSet"};
  int number = 0;
  for (const Json& one : Json::parse(*text)["update"]) {
    SCOPED_TRACE(one["case"].get<std::string>());
    ASSERT_EQ(one["kind"], "SampleSet");
    const ObjectKey key{ns_, fmt::format("s{}", number++)};
    ASSERT_OK(client_->Create(ctx_, sets, ns_,
                              Json{{"apiVersion", sets.ApiVersion()},
                                   {"kind", sets.kind},
                                   {"metadata", {{"name", key.name}}},
                                   {"spec", one["before"]}}
                                  .dump()));
    if (!one["phase"].get<std::string>().empty()) {
      ASSERT_OK(
          client_->Patch(ctx_, sets, key,
                         MergePatch(Json{{"status", {{"phase", one["phase"]}}}}.dump(), "status")));
    }
    const auto now = client_->Get(ctx_, sets, key);
    ASSERT_OK(now);
    Json json = Read(*now);
    json["spec"] = one["after"];
    const auto updated = client_->Update(ctx_, sets, key, json.dump(), "");
    EXPECT_EQ(updated.has_value(), one["refused"].empty())
        << (updated ? "" : updated.error().message());
    for (const Json& message : one["refused"]) {
      EXPECT_THAT(updated ? "accepted" : updated.error().message(),
                  ::testing::HasSubstr(message.get<std::string>()));
    }
  }
  EXPECT_GT(number, 3);
}

TEST_F(ApiServerTest, AStrategicPatchMergesByKey) {
  ASSERT_OK(client_->Create(ctx_, kStatefulSets, ns_, StatefulSetJson("s", 1)));
  ObjectPatch patch;
  patch.type = PatchType::kStrategic;
  patch.body = R"({"spec":{"template":{"spec":{"containers":[{"name":"d","image":"j"}]}}}})";
  const auto patched = client_->Patch(ctx_, kStatefulSets, {ns_, "s"}, patch);
  ASSERT_OK(patched);
  EXPECT_EQ(Read(*patched)["spec"]["template"]["spec"]["containers"].size(), 2u);
  patch.body = R"({"spec":{"template":{"spec":{"containers":[{"name":"d","$patch":"delete"}]}}}})";
  const auto again = client_->Patch(ctx_, kStatefulSets, {ns_, "s"}, patch);
  ASSERT_OK(again);
  EXPECT_EQ(Read(*again)["spec"]["template"]["spec"]["containers"].size(), 1u);
}

TEST_F(ApiServerTest, APodIsPlacedOnceAndGoesWithGrace) {
  const auto made = client_->Create(ctx_, kPods, ns_, PodJson("p"));
  ASSERT_OK(made);
  const Json pod = Read(*made);
  EXPECT_EQ(pod["status"]["phase"], "Pending");
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Always");
  EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 30);
  ASSERT_OK(client_->Delete(ctx_, kPods, {ns_, "p"}));
  EXPECT_CODE(client_->Get(ctx_, kPods, {ns_, "p"}), Code::kNotFound) << "nobody ran it";
}

TEST_F(ApiServerTest, AnInformerSurvivesARestart) {
  Server own;
  auto client = own.Connect();
  struct Small {
    std::string json;
  };
  Logger log(LogLevel::kError);
  const auto set = [&](const std::string& value) {
    return client->Patch(ctx_, kConfigMaps, {"default", "a"},
                         MergePatch(fmt::format(R"({{"data":{{"k":"{}"}}}})", value)));
  };
  ASSERT_OK(client->Create(ctx_, kConfigMaps, "default", ConfigMapJson("a")));
  Informer<Small> informer(
      InformerOptions{.resource = kConfigMaps, .ns = "default"},
      [](std::string_view json) -> Result<Small> { return Small{std::string(json)}; }, *client, log,
      own.metrics());
  informer.Start();
  ASSERT_OK(informer.WaitForSync(ctx_));
  const auto before = client->Get(ctx_, kConfigMaps, {"default", "a"});
  ASSERT_OK(before);
  own.Stop();
  own.Start();
  const auto after = client->Get(ctx_, kConfigMaps, {"default", "a"});
  ASSERT_OK(after);
  EXPECT_EQ(after->json, before->json);
  ASSERT_OK(set("2"));
  EXPECT_TRUE(WaitUntil(
      [&] {
        const auto object = informer.Get({"default", "a"});
        return object && object->json.contains(R"("k":"2")");
      },
      std::chrono::seconds(60)));
}

TEST_F(ApiServerTest, ADirectoryHasOneServer) {
  MetricsRegistry metrics;
  const Logger log(LogLevel::kError);
  const auto second = ApiServer::Start({.data_dir = Shared().dir()}, log, metrics);
  EXPECT_CODE(second, Code::kAlreadyExists);
  EXPECT_THAT(second.error().message(), ::testing::HasSubstr("--data-dir"));
}

TEST_F(ApiServerTest, OnlyTheTokenOpens) {
  struct stat info = {};
  ASSERT_EQ(::stat(Shared().get().kubeconfig_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  auto config = LoadKubeconfig(Shared().get().kubeconfig_file());
  ASSERT_OK(config);
  config->credentials = TokenCredentials(Secret("wrong"));
  MetricsRegistry metrics;
  auto client = HttpClusterClient::Create(*std::move(config), {}, metrics);
  ASSERT_OK(client);
  EXPECT_CODE((*client)->Get(ctx_, kConfigMaps, {ns_, "a"}), Code::kPermission);
}

TEST_F(ApiServerTest, ParallelWritesAllArriveInOrder) {
  constexpr int kThreads = 8;
  constexpr int kEach = 40;
  std::mutex mutex;
  std::set<std::string> versions;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const auto made =
              client_->Create(ctx_, kConfigMaps, ns_, ConfigMapJson(fmt::format("c-{}-{}", t, i)));
          ASSERT_OK(made);
          const std::lock_guard lock(mutex);
          versions.insert(made->resource_version);
        }
      });
    }
  }
  EXPECT_EQ(versions.size(), static_cast<std::size_t>(kThreads * kEach));
}

}  // namespace
}  // namespace paddleop::kube::testing
