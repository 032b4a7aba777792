#include "kube/manager/manager.h"

#include <gmock/gmock.h>

#include <mutex>

#include "base/testing/matchers.h"
#include "kube/testing/failing_cluster.h"
#include "kube/testing/fake_cluster.h"
#include "kube/testing/objects.h"
#include "kube/testing/wait_until.h"
#include "net/http_client.h"

namespace paddleop::kube {
namespace {

using std::chrono::milliseconds;
using testing::ConfigMapJson;
using testing::FailingCluster;
using testing::FakeCluster;
using ::testing::HasSubstr;
using testing::WaitUntil;

struct Nothing {};

Result<Nothing> DecodeNothing(std::string_view) { return Nothing{}; }

// Everything a manager process has, on one cluster.
class Process final : public Reconciler {
 public:
  Process(ClusterClient& cluster, const std::string& identity)
      : events_({.component = "test"}, cluster, log_, metrics_),
        informer_({.resource = kConfigMaps}, DecodeNothing, cluster, log_, metrics_),
        controller_({.name = "test", .workers = 2}, *this, log_, metrics_),
        manager_({.metrics_address = "127.0.0.1:0",
                  .health_address = "127.0.0.1:0",
                  .leader_election = LeaderElectionOptions{.ns = "system",
                                                           .name = "lease",
                                                           .identity = identity,
                                                           .lease_duration = milliseconds(1500),
                                                           .renew_deadline = milliseconds(1000),
                                                           .retry_period = milliseconds(50)}},
                 cluster, log_, metrics_) {
    informer_.AddHandler([this](const Change<Nothing>& change) { controller_.Add(change.key); });
    manager_.Add(informer_);
    manager_.Add(controller_);
    manager_.Add(events_);
    manager_.AddService("ticker", [this](const Context& ctx) {
      ++services_;
      while (Clock::System().SleepFor(ctx, milliseconds(1))) {
      }
      --services_;
    });
  }

  void Start() {
    thread_ = std::jthread([this](std::stop_token stop) {
      result_ = manager_.Run(Context::Background().WithStop(stop));
      done_ = true;
    });
  }
  Result<void> Stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    return result_;
  }
  Result<Requeue> Reconcile(const Context&, const ObjectKey& key) override {
    std::lock_guard lock(mutex_);
    seen_.push_back(key.name);
    return Requeue{};
  }
  std::size_t seen() {
    std::lock_guard lock(mutex_);
    return seen_.size();
  }
  std::string Fetch(std::uint16_t port, const std::string& path, int* status) {
    auto client = net::HttpClient::Create();
    if (!client) return client.error().message();
    net::HttpRequest request;
    request.url = fmt::format("http://127.0.0.1:{}{}", port, path);
    auto response = (*client)->Do(Context::Background(), std::move(request));
    if (!response) return response.error().message();
    *status = response->status;
    return response->body;
  }

  Manager& manager() { return manager_; }
  bool done() const { return done_; }
  int services() const { return services_; }

 private:
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  std::mutex mutex_;
  std::vector<std::string> seen_;
  std::atomic<int> services_ = 0;
  EventRecorder events_;
  Informer<Nothing> informer_;
  Controller controller_;
  Manager manager_;
  Result<void> result_;
  std::atomic<bool> done_ = false;
  std::jthread thread_;
};

TEST(Manager, StartsServesAndStops) {
  FakeCluster cluster;
  ASSERT_OK(cluster.Create(Context::Background(), kConfigMaps, "n", ConfigMapJson("a")));
  Process process(cluster, "one");
  process.Start();
  ASSERT_TRUE(WaitUntil([&] { return process.manager().is_leader() && process.seen() == 1; }));
  EXPECT_TRUE(WaitUntil([&] { return process.services() == 1; }));
  int status = 0;
  EXPECT_EQ(process.Fetch(process.manager().health_port(), "/healthz", &status), "ok");
  EXPECT_EQ(status, 200);
  EXPECT_THAT(process.Fetch(process.manager().health_port(), "/readyz", &status),
              HasSubstr("[+]informers ok"));
  EXPECT_EQ(status, 200);
  EXPECT_THAT(process.Fetch(process.manager().metrics_port(), "/metrics", &status),
              HasSubstr("paddleop_kube_leader 1"));
  process.Fetch(process.manager().metrics_port(), "/other", &status);
  EXPECT_EQ(status, 404);
  EXPECT_OK(process.Stop());
  EXPECT_EQ(process.services(), 0);
  EXPECT_FALSE(process.manager().is_leader());
  const auto lease = cluster.Get(Context::Background(), kLeases, {"system", "lease"});
  ASSERT_OK(lease);
  EXPECT_THAT(lease->json, HasSubstr(R"("holderIdentity":"")"));
}

TEST(Manager, IsNotReadyBeforeItsCachesAreComplete) {
  FakeCluster inner;
  FailingCluster cluster(inner);
  cluster.FailRandomly(1, 1.0);
  Process process(cluster, "one");
  process.Start();
  ASSERT_TRUE(WaitUntil([&] { return process.manager().health_port() != 0; }));
  int status = 0;
  EXPECT_THAT(process.Fetch(process.manager().health_port(), "/readyz", &status),
              HasSubstr("[-]informers failed: configmaps not listed yet"));
  EXPECT_EQ(status, 503);
  EXPECT_OK(process.Stop());
}

TEST(Manager, TheSecondTakesOverWhenTheFirstStops) {
  FakeCluster cluster;
  Process one(cluster, "one"), two(cluster, "two");
  one.Start();
  ASSERT_TRUE(WaitUntil([&] { return one.manager().is_leader(); }));
  two.Start();
  ASSERT_OK(cluster.Create(Context::Background(), kConfigMaps, "n", ConfigMapJson("a")));
  ASSERT_TRUE(WaitUntil([&] { return one.seen() == 1; }));
  EXPECT_EQ(two.seen(), 0u);
  EXPECT_OK(one.Stop());
  ASSERT_TRUE(WaitUntil([&] { return two.manager().is_leader() && two.seen() == 1; }));
  EXPECT_OK(two.Stop());
}

TEST(Manager, LostLeadershipStopsTheControllers) {
  FakeCluster inner;
  FailingCluster cluster(inner);
  Process one(cluster, "one");
  one.Start();
  ASSERT_TRUE(WaitUntil([&] { return one.manager().is_leader(); }));
  ASSERT_OK(inner.Patch(Context::Background(), kLeases, {"system", "lease"},
                        MergePatch(R"({"spec":{"holderIdentity":"thief"}})")));
  ASSERT_TRUE(WaitUntil([&] { return one.done(); }));
  EXPECT_EQ(one.services(), 0);
  EXPECT_CODE(one.Stop(), Code::kConflict);
  const auto lease = inner.Get(Context::Background(), kLeases, {"system", "lease"});
  ASSERT_OK(lease);
  EXPECT_THAT(lease->json, HasSubstr("thief")) << "it is not ours to release";
}

TEST(Manager, BadAddressesAreRefused) {
  FakeCluster cluster;
  Logger log(LogLevel::kOff);
  MetricsRegistry metrics;
  Manager manager({.metrics_address = "nonsense", .health_address = "0"}, cluster, log, metrics);
  EXPECT_CODE(manager.Run(Context::Background()), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::kube
