// The client and informers against a real kube-apiserver with etcd.
#include <gmock/gmock.h>

#include <set>

#include "base/crypto.h"
#include "base/thread_pool.h"
#include "kube/cache/informer.h"
#include "kube/client/http_cluster_client.h"
#include "kube/manager/events.h"
#include "kube/manager/leader_election.h"
#include "kube/testing/cluster_client_contract.h"
#include "support/peer.h"

namespace paddleop::kube::testing {
namespace {

using paddleop::testing::Peer;

// One API server for the whole program: a start takes seconds.
class ApiServer final : public ::testing::Environment {
 public:
  void SetUp() override {
    auto peer = Peer::Start("kube");
    ASSERT_OK(peer);
    peer_ = std::make_unique<Peer>(*std::move(peer));
  }
  void TearDown() override { peer_.reset(); }
  Peer& peer() { return *peer_; }

 private:
  std::unique_ptr<Peer> peer_;
};

ApiServer* const server = static_cast<ApiServer*>(
    ::testing::AddGlobalTestEnvironment(std::make_unique<ApiServer>().release()));

std::unique_ptr<HttpClusterClient> Connect(const std::string& kubeconfig_field,
                                           MetricsRegistry& metrics) {
  auto config = LoadKubeconfig(server->peer().Get(kubeconfig_field));
  EXPECT_OK(config);
  if (!config) return nullptr;
  auto client = HttpClusterClient::Create(*std::move(config), {}, metrics);
  EXPECT_OK(client);
  return client ? *std::move(client) : nullptr;
}

std::string NewNamespace(ClusterClient& client) {
  const auto made =
      client.Create(Context::Background(), kNamespaces, "",
                    R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t-)" +
                        HexEncode(RandomBytes(6)) + R"("}})");
  EXPECT_OK(made);
  return made ? made->name : "";
}

class RealCluster : public ContractCluster {
 public:
  explicit RealCluster(const std::string& kubeconfig_field)
      : client_(Connect(kubeconfig_field, metrics_)), ns_(NewNamespace(*client_)) {}
  ClusterClient& client() override { return *client_; }
  std::string ns() override { return ns_; }
  MetricsRegistry& metrics() { return metrics_; }

 private:
  MetricsRegistry metrics_;
  std::unique_ptr<HttpClusterClient> client_;
  std::string ns_;
};

INSTANTIATE_TEST_SUITE_P(Token, ClusterClientContract,
                         ::testing::Values(+[]() -> std::unique_ptr<ContractCluster> {
                           return std::make_unique<RealCluster>("kubeconfig");
                         }));
INSTANTIATE_TEST_SUITE_P(Certificate, ClusterClientContract,
                         ::testing::Values(+[]() -> std::unique_ptr<ContractCluster> {
                           return std::make_unique<RealCluster>("kubeconfig_cert");
                         }));

struct Small {
  std::string json;
};

class KubeTest : public ::testing::Test {
 protected:
  Result<RawObject> Create(const std::string& name, const std::string& value) {
    return client_.Create(ctx_, kConfigMaps, ns_, ConfigMapJson(name, value));
  }
  Result<RawObject> Set(const std::string& name, const std::string& value) {
    return client_.Patch(ctx_, kConfigMaps, {ns_, name},
                         MergePatch(fmt::format(R"({{"data":{{"k":"{}"}}}})", value)));
  }
  std::unique_ptr<Informer<Small>> MakeInformer(std::size_t page_size = 500) {
    return std::make_unique<Informer<Small>>(
        InformerOptions{.resource = kConfigMaps, .ns = ns_, .page_size = page_size},
        [](std::string_view json) -> Result<Small> { return Small{std::string(json)}; }, client_,
        log_, cluster_.metrics());
  }
  bool Holds(const Informer<Small>& informer, const std::string& name, const std::string& value) {
    return WaitUntil(
        [&] {
          const auto object = informer.Get({ns_, name});
          return object && object->json.contains(R"("k":")" + value + "\"");
        },
        std::chrono::seconds(60));
  }

  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(120));
  Logger log_{LogLevel::kWarn};
  RealCluster cluster_{"kubeconfig"};
  ClusterClient& client_ = cluster_.client();
  const std::string ns_ = cluster_.ns();
};

TEST_F(KubeTest, AVersionFromLongAgoIsExpired) {
  EXPECT_CODE(client_.Watch(ctx_, kConfigMaps, ns_,
                            {.resource_version = "1", .timeout = std::chrono::seconds(5)},
                            [](WatchEvent) -> Result<void> { return {}; }),
              Code::kExpired);
}

TEST_F(KubeTest, WithoutPermissionOrCredentialsIsRefused) {
  auto config = LoadKubeconfig(server->peer().Get("kubeconfig"));
  ASSERT_OK(config);
  config->credentials = TokenCredentials(Secret("wrong"));
  config->tls.cert_file.clear();
  config->tls.key_file.clear();
  MetricsRegistry metrics;
  auto client = HttpClusterClient::Create(*config, {}, metrics);
  ASSERT_OK(client);
  EXPECT_CODE((*client)->Get(ctx_, kConfigMaps, {ns_, "a"}), Code::kPermission);
  config->tls.ca_file.clear();
  config->tls.ca_pem.clear();
  client = HttpClusterClient::Create(*config, {}, metrics);
  ASSERT_OK(client);
  EXPECT_CODE((*client)->Get(ctx_, kConfigMaps, {ns_, "a"}), Code::kPermission);
}

TEST_F(KubeTest, AnInformerPagesThenFollows) {
  for (int i = 0; i < 23; ++i) ASSERT_OK(Create(fmt::format("c{}", i), "1"));
  auto informer = MakeInformer(10);
  informer->Start();
  ASSERT_OK(informer->WaitForSync(ctx_));
  EXPECT_GE(informer->size(), 23u);
  ASSERT_OK(Set("c7", "2"));
  EXPECT_TRUE(Holds(*informer, "c7", "2"));
  ASSERT_OK(client_.Delete(ctx_, kConfigMaps, {ns_, "c8"}));
  EXPECT_TRUE(WaitUntil([&] { return informer->Get({ns_, "c8"}) == nullptr; }));
}

TEST_F(KubeTest, AnInformerSurvivesTheApiServer) {
  ASSERT_OK(Create("a", "1"));
  ASSERT_OK(Create("gone", "1"));
  auto informer = MakeInformer();
  informer->Start();
  ASSERT_OK(informer->WaitForSync(ctx_));
  ASSERT_OK(server->peer().Command("kill kube-apiserver"));
  EXPECT_CODE(client_.Get(ctx_.WithTimeout(std::chrono::seconds(5)), kConfigMaps, {ns_, "a"}),
              Code::kUnavailable);
  ASSERT_OK(server->peer().Command("start kube-apiserver"));
  ASSERT_TRUE(WaitUntil([&] { return Set("a", "2").has_value(); }, std::chrono::seconds(60)));
  ASSERT_OK(client_.Delete(ctx_, kConfigMaps, {ns_, "gone"}));
  EXPECT_TRUE(Holds(*informer, "a", "2"));
  EXPECT_TRUE(
      WaitUntil([&] { return informer->Get({ns_, "gone"}) == nullptr; }, std::chrono::seconds(60)));
}

TEST_F(KubeTest, NothingIsAskedWhileNothingChanges) {
  ASSERT_OK(Create("a", "1"));
  auto informer = MakeInformer();
  informer->Start();
  ASSERT_OK(informer->WaitForSync(ctx_));
  ASSERT_OK(Set("a", "2"));
  ASSERT_TRUE(Holds(*informer, "a", "2"));
  const auto lists = [&] {
    return cluster_.metrics()
        .AddCounter("paddleop_kube_requests_total", "",
                    {{"verb", "list"}, {"resource", "configmaps"}, {"code", "200"}})
        .Value();
  };
  const double before = lists();
  Clock::System().SleepFor(ctx_, std::chrono::seconds(3));
  EXPECT_EQ(lists(), before);
  EXPECT_EQ(before, 1);
}

TEST_F(KubeTest, ParallelWritesAllArrive) {
  auto informer = MakeInformer();
  informer->Start();
  ASSERT_OK(informer->WaitForSync(ctx_));
  const std::size_t before = informer->size();
  {
    ThreadPool pool({.name = "write", .threads = 16});
    for (int i = 0; i < 100; ++i)
      ASSERT_OK(pool.Submit(ctx_, [this, i] { EXPECT_OK(Create(fmt::format("p{}", i), "1")); }));
  }
  EXPECT_TRUE(WaitUntil([&] { return informer->size() == before + 100; }));
}

TEST_F(KubeTest, LeadersTakeTurns) {
  const auto options = [&](std::string identity) {
    return LeaderElectionOptions{.ns = ns_, .name = "lease", .identity = std::move(identity)};
  };
  LeaderElector one(options("one"), client_, log_), two(options("two"), client_, log_);
  ASSERT_OK(one.Acquire(ctx_));
  EXPECT_CODE(two.Acquire(ctx_.WithTimeout(std::chrono::seconds(1))), Code::kDeadline);
  ASSERT_OK(one.Release(ctx_));
  ASSERT_OK(two.Acquire(ctx_));
  EXPECT_TRUE(two.is_leader());
}

TEST_F(KubeTest, EventsAreAcceptedAndCounted) {
  const auto about = Create("a", "1");
  ASSERT_OK(about);
  EventRecorder events({.component = "test-controller"}, client_, log_, cluster_.metrics());
  for (int i = 0; i < 2; ++i) {
    events.Record(ReferenceTo(kConfigMaps, about->key(), about->uid), EventType::kWarning, "Tested",
                  "twice");
    ASSERT_OK(events.Flush(ctx_));
  }
  const auto page = client_.List(ctx_, kEvents, ns_, {.field_selector = "involvedObject.name=a"});
  ASSERT_OK(page);
  ASSERT_EQ(page->items.size(), 1u);
  EXPECT_THAT(page->items[0].json, ::testing::HasSubstr(R"("count":2)"));
}

}  // namespace
}  // namespace paddleop::kube::testing
