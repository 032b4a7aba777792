#include "runtime/server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <set>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "net/http_client.h"
#include "runtime/client/runtime_client.h"
#include "runtime/server/testing/auth_dir.h"
#include "runtime/server/testing/fake_engine.h"

namespace paddleop::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::FakeEngine;
using ::testing::HasSubstr;
using testing::kToken;
using ::testing::Not;

// Runtimes of one set in this process, with engines that do what the test says.
class RuntimeServerTest : public ::testing::Test {
 protected:
  struct Node {
    MetricsRegistry metrics;
    std::unique_ptr<Server> server;
    std::unique_ptr<RuntimeClient> client;
  };

  void SetUp() override {
    auto dir = TempDir::Create();
    ASSERT_OK(dir);
    dir_.emplace(*std::move(dir));
  }
  void TearDown() override { nodes_.clear(); }

  std::string AuthDir(std::uint32_t i) const { return dir_->File(fmt::format("auth-{}", i)); }

  void StartNode(std::uint32_t i, std::uint16_t port = 0) {
    ASSERT_OK(testing::WriteAuthDir(AuthDir(i), authority_, i));
    Node& node = nodes_[i];
    node.client.reset();
    node.server.reset();
    auto server = Server::Start(
        {.index = i,
         .address = "127.0.0.1",
         .port = port,
         .auth_dir = AuthDir(i),
         .open = [this, i](const Context&) -> Result<std::shared_ptr<Engine>> {
           if (closed_) return Fail(Code::kUnavailable, "no volume at redis://here");
           return std::make_shared<FakeEngine>(
               dir_->File(fmt::format("state-{}", i)),
               [this, i](const Context& ctx, const JobRequest& request, JobReporter& report) {
                 return work_(i, ctx, request, report);
               });
         },
         .open_backoff = {.initial = milliseconds(10), .maximum = milliseconds(50)},
         .look_interval = milliseconds(20),
         .peer_patience = patience_},
        log_, node.metrics);
    ASSERT_OK(server);
    node.server = *std::move(server);
    node.client = Client(i);
  }
  std::unique_ptr<RuntimeClient> Client(std::uint32_t i, const std::string& token = kToken,
                                        const std::string& previous = "") {
    auto client =
        OpenRuntimeClient({.address = fmt::format("127.0.0.1:{}", nodes_[i].server->port()),
                           .tls_name = RuntimeTlsName("set", "ns", i),
                           .ca_pem = authority_.cert_pem(),
                           .token = Secret(token),
                           .previous_token = Secret(previous),
                           .timeout = seconds(30)});
    EXPECT_OK(client);
    return *std::move(client);
  }
  void WaitReady(std::uint32_t i) {
    ASSERT_TRUE(WaitFor([&] {
      auto info = nodes_[i].client->GetCacheInfo(ctx_);
      return info && info->ready;
    }));
  }
  void StartSet(std::uint32_t count) {
    PeerTable table{.generation = 1};
    for (std::uint32_t i = 0; i < count; ++i) {
      StartNode(i);
      WaitReady(i);
      table.peers.push_back({i, fmt::format("127.0.0.1:{}", nodes_[i].server->port()),
                             RuntimeTlsName("set", "ns", i)});
    }
    for (std::uint32_t i = 0; i < count; ++i) ASSERT_OK(nodes_[i].client->PutPeers(ctx_, table));
  }
  template <class Condition>
  static bool WaitFor(Condition condition) {
    const auto end = steady_clock::now() + seconds(60);
    while (!condition()) {
      if (steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }
  JobResult WaitEnd(const JobRequest& request) {
    JobResult last;
    EXPECT_TRUE(WaitFor([&] {
      auto result = nodes_[0].client->GetResult(ctx_, request.kind, request.name);
      if (result) last = *result;
      return result && Finished(result->state);
    })) << StateName(last.state)
        << last.message;
    return last;
  }
  static JobRequest Warmup() { return {.kind = JobKind::kWarmup, .name = RandomUuid()}; }
  net::HttpResponse Raw(std::uint32_t i, net::HttpRequest request) {
    auto http = net::HttpClient::Create(
        {.tls = {.ca_pem = authority_.cert_pem(), .server_name = RuntimeTlsName("set", "ns", i)}});
    EXPECT_OK(http);
    request.url = fmt::format("https://127.0.0.1:{}{}", nodes_[i].server->port(), request.url);
    auto response = (*http)->Do(ctx_.WithTimeout(seconds(30)), std::move(request));
    EXPECT_OK(response);
    return response ? *std::move(response) : net::HttpResponse{};
  }

  std::optional<TempDir> dir_;
  net::testing::CertificateAuthority authority_;
  Logger log_{LogLevel::kOff};
  const Context ctx_ = Context::Background();
  seconds patience_{60};
  std::atomic<bool> closed_ = false;
  std::function<Result<std::string>(std::uint32_t, const Context&, const JobRequest&, JobReporter&)>
      work_ = [](std::uint32_t i, const Context&, const JobRequest& request, JobReporter& report) {
        report.Progress({.total = 10, .done = 10}, {.total = 100 + i, .done = 100 + i});
        return Result<std::string>(fmt::format("part {}", request.part->index));
      };
  std::map<std::uint32_t, Node> nodes_;
};

TEST_F(RuntimeServerTest, SpreadsAJobAndMergesItsProgress) {
  StartSet(3);
  const JobRequest request = Warmup();
  ASSERT_OK(nodes_[0].client->Post(ctx_, request));
  const JobResult result = WaitEnd(request);
  EXPECT_EQ(result.state, JobState::kSucceeded) << result.message;
  EXPECT_EQ(result.parts.size(), 3U);
  EXPECT_EQ(result.progress.files.done, 30);
  EXPECT_EQ(result.progress.bytes.done, 303);
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto part = nodes_[i].client->GetResult(ctx_, JobKind::kWarmup, PartName(request.name, i, 3));
    ASSERT_OK(part);
    EXPECT_EQ(part->state, JobState::kSucceeded);
    EXPECT_EQ(part->runs, 1U);
  }
  auto stored = nodes_[0].client->GetRequest(ctx_, JobKind::kWarmup, request.name);
  ASSERT_OK(stored);
  EXPECT_EQ(*stored, request);
}

TEST_F(RuntimeServerTest, AFailedPartFailsTheJobAfterTheOthersEnded) {
  work_ = [](std::uint32_t i, const Context&, const JobRequest&,
             JobReporter& report) -> Result<std::string> {
    report.Failed({fmt::format("file-{}", i), "unreadable"});
    if (i == 1) return Fail(Code::kNoSpace, "the disk is full");
    return std::string("ok");
  };
  StartSet(3);
  const JobRequest request = Warmup();
  ASSERT_OK(nodes_[0].client->Post(ctx_, request));
  const JobResult result = WaitEnd(request);
  EXPECT_EQ(result.state, JobState::kFailed);
  EXPECT_THAT(result.message, HasSubstr("partition 1: the disk is full"));
  EXPECT_EQ(result.parts[2].state, JobState::kSucceeded);
  EXPECT_EQ(result.failed_files.size(), 3U);
}

TEST_F(RuntimeServerTest, CancelReachesEveryPart) {
  std::atomic<int> running = 0;
  work_ = [&](std::uint32_t, const Context& ctx, const JobRequest&,
              JobReporter&) -> Result<std::string> {
    ++running;
    while (Clock::System().SleepFor(ctx, seconds(60))) {
    }
    return Fail(Code::kCancelled, "stopped");
  };
  StartSet(2);
  const JobRequest request = Warmup();
  ASSERT_OK(nodes_[0].client->Post(ctx_, request));
  ASSERT_TRUE(WaitFor([&] { return running == 2; }));
  ASSERT_OK(nodes_[0].client->Cancel(ctx_, request.name));
  EXPECT_EQ(WaitEnd(request).state, JobState::kCancelled);
  auto part = nodes_[1].client->GetResult(ctx_, JobKind::kWarmup, PartName(request.name, 1, 2));
  ASSERT_OK(part);
  EXPECT_EQ(part->state, JobState::kCancelled);

  const JobRequest other = Warmup();
  ASSERT_OK(nodes_[0].client->Post(ctx_, other));
  ASSERT_TRUE(WaitFor([&] { return running == 4; }));
  ASSERT_OK(nodes_[0].client->CancelAll(ctx_));
  EXPECT_EQ(WaitEnd(other).state, JobState::kCancelled);
}

TEST_F(RuntimeServerTest, RestartsOfAnyRuntimeDoNotLoseTheJob) {
  std::atomic<bool> go = false;
  std::atomic<int> with_key = 0;
  work_ = [&](std::uint32_t, const Context& ctx, const JobRequest& request,
              JobReporter&) -> Result<std::string> {
    while (!go) {
      if (!Clock::System().SleepFor(ctx, milliseconds(5))) return Fail(Code::kCancelled, "stopped");
    }
    if (request.sources[0].credentials.secret_key.Reveal() == "sesame") ++with_key;
    return std::string("ok");
  };
  StartSet(2);
  JobRequest request{.kind = JobKind::kSync, .name = RandomUuid()};
  request.sources = {{.uri = "s3://b.host/p",
                      .credentials = {.access_key = "ak", .secret_key = Secret("sesame")}}};
  ASSERT_OK(nodes_[0].client->Post(ctx_, request));
  const auto part_runs = [&] {
    auto part = nodes_[1].client->GetResult(ctx_, JobKind::kSync, PartName(request.name, 1, 2));
    return part && part->state == JobState::kRunning;
  };
  ASSERT_TRUE(WaitFor(part_runs));
  // The worker restarts: runtime 0 brings it the key again.
  const std::uint16_t port1 = nodes_[1].server->port();
  StartNode(1, port1);
  ASSERT_TRUE(WaitFor(part_runs));
  // Runtime 0 restarts: it asks whoever posted the job.
  const std::uint16_t port0 = nodes_[0].server->port();
  StartNode(0, port0);
  WaitReady(0);
  auto waiting = nodes_[0].client->GetResult(ctx_, request.kind, request.name);
  ASSERT_OK(waiting);
  EXPECT_EQ(waiting->state, JobState::kNeedsCredentials);
  ASSERT_OK(nodes_[0].client->Post(ctx_, request));
  go = true;
  const JobResult result = WaitEnd(request);
  EXPECT_EQ(result.state, JobState::kSucceeded) << result.message;
  EXPECT_EQ(with_key, 2);
}

TEST_F(RuntimeServerTest, C15_APartitionThatStaysAwayFailsTheJobByName) {
  patience_ = seconds(1);
  StartSet(2);
  nodes_[1].server.reset();
  const JobRequest request = Warmup();
  ASSERT_OK(nodes_[0].client->Post(ctx_, request));
  const JobResult result = WaitEnd(request);
  EXPECT_EQ(result.state, JobState::kFailed);
  EXPECT_THAT(result.message, HasSubstr("partition 1"));
}

TEST_F(RuntimeServerTest, WithoutTheTokenNothingButHealth) {
  StartSet(1);
  for (const char* path : {"/healthz", "/readyz", "/metrics"}) {
    EXPECT_EQ(Raw(0, {.url = path}).status, 200) << path;
  }
  for (const char* path : {"/jobs", "/peers", "/cacheStatus/cacheInfo.json", "/", "/blocks/1_0_1",
                           "/syncResult/x", "/etc/passwd"}) {
    EXPECT_EQ(Raw(0, {.url = path}).status, 401) << path;
  }
  EXPECT_CODE(Client(0, "another-sets-token")->GetCacheInfo(ctx_), Code::kPermission);
  EXPECT_CODE(Client(0, "another-sets-token")->Post(ctx_, Warmup()), Code::kPermission);
  const std::string text = nodes_[0].metrics.Serialize();
  EXPECT_THAT(text, HasSubstr("paddleop_runtime_requests_refused_total{reason=\"no_token\"} 7"));
  EXPECT_THAT(text, HasSubstr("paddleop_runtime_requests_refused_total{reason=\"wrong_token\"} 2"));
}

TEST_F(RuntimeServerTest, RefusesPlainHttpOversizedAndMalformed) {
  StartSet(1);
  auto http = net::HttpClient::Create({});
  ASSERT_OK(http);
  auto plain =
      (*http)->Do(ctx_.WithTimeout(seconds(30)),
                  {.url = fmt::format("http://127.0.0.1:{}/healthz", nodes_[0].server->port())});
  EXPECT_FALSE(plain && plain->status / 100 == 2);
  const net::HttpHeaders auth = {{"Authorization", std::string("Bearer ") + kToken},
                                 {"filename", RandomUuid()}};
  // Refused while it is being sent: the client sees 413, or that the connection is gone.
  auto tls = net::HttpClient::Create(
      {.tls = {.ca_pem = authority_.cert_pem(), .server_name = RuntimeTlsName("set", "ns", 0)}});
  ASSERT_OK(tls);
  auto large = (*tls)->Do(
      ctx_.WithTimeout(seconds(30)),
      {.method = "POST",
       .url = fmt::format("https://127.0.0.1:{}/upload/rmrOptions", nodes_[0].server->port()),
       .headers = auth,
       .body = std::string(21 << 20, ' ')});
  EXPECT_TRUE(!large || large->status == 413);
  EXPECT_THAT(nodes_[0].metrics.Serialize(),
              HasSubstr("paddleop_http_server_refused_total{reason=\"too_large\"} 1"));
  EXPECT_EQ(
      Raw(0, {.method = "POST", .url = "/upload/rmrOptions", .headers = auth, .body = "{"}).status,
      400);
  EXPECT_EQ(Raw(0, {.method = "GET", .url = "/upload/rmrOptions", .headers = auth}).status, 405);
  net::HttpHeaders evil = auth;
  evil.Set("filename", "../../../../etc/cron.d/evil");
  EXPECT_EQ(Raw(0, {.method = "POST",
                    .url = "/upload/rmrOptions",
                    .headers = evil,
                    .body = R"({"options":{"paths":["a"]}})"})
                .status,
            400);
  EXPECT_EQ(Raw(0, {.url = "/../../etc/passwd", .headers = auth}).status / 100, 4);
  EXPECT_EQ(Raw(0, {.url = "/rmrResult/../../etc/passwd", .headers = auth}).status, 404);
}

TEST_F(RuntimeServerTest, ANewTokenIsTakenUpAndTheOldOneStillGood) {
  StartSet(1);
  const std::string fresh = "ffffffffffffffffffffffffffffffff";
  ASSERT_OK(WriteFileAtomic(AuthDir(0) + "/token", fresh, 0600));
  auto client = Client(0, fresh);
  EXPECT_TRUE(WaitFor([&] { return client->GetCacheInfo(ctx_).has_value(); }));
  EXPECT_OK(Client(0, kToken)->GetCacheInfo(ctx_));
  EXPECT_OK(Client(0, "not-a-token-of-this-set", fresh)->GetCacheInfo(ctx_));
}

TEST_F(RuntimeServerTest, SaysWhyItIsNotReady) {
  closed_ = true;
  StartNode(0);
  ASSERT_TRUE(WaitFor([&] {
    auto info = nodes_[0].client->GetCacheInfo(ctx_);
    return info && !info->ready && info->message.find("no volume") != std::string::npos;
  }));
  EXPECT_EQ(Raw(0, {.url = "/readyz"}).status, 503);
  EXPECT_CODE(nodes_[0].client->Post(ctx_, Warmup()), Code::kUnavailable);
  closed_ = false;
  WaitReady(0);
  EXPECT_EQ(Raw(0, {.url = "/readyz"}).status, 200);
}

TEST_F(RuntimeServerTest, PeersAreKeptAndOldTablesRefused) {
  StartSet(2);
  PeerTable table = nodes_[0].client->GetPeers(ctx_).value();
  table.generation = 5;
  ASSERT_OK(nodes_[0].client->PutPeers(ctx_, table));
  table.generation = 4;
  EXPECT_CODE(nodes_[0].client->PutPeers(ctx_, table), Code::kConflict);
  StartNode(0);
  WaitReady(0);
  EXPECT_EQ(nodes_[0].client->GetCacheInfo(ctx_)->peers_generation, 5U);
}

TEST_F(RuntimeServerTest, PurgeLeavesNothing) {
  StartSet(1);
  const JobRequest request = Warmup();
  ASSERT_OK(nodes_[0].client->Post(ctx_, request));
  WaitEnd(request);
  ASSERT_OK(nodes_[0].client->Purge(ctx_));
  EXPECT_CODE(ReadFile(dir_->File("state-0/peers.json")), Code::kNotFound);
  EXPECT_CODE(nodes_[0].client->Post(ctx_, Warmup()), Code::kUnavailable);
  EXPECT_OK(nodes_[0].client->Purge(ctx_));
}

TEST_F(RuntimeServerTest, WhatIsNotOpenIsNotSaidToBePurged) {
  closed_ = true;
  StartNode(0);
  EXPECT_CODE(nodes_[0].client->Purge(ctx_), Code::kUnavailable);
  closed_ = false;
  WaitReady(0);
  EXPECT_OK(nodes_[0].client->Purge(ctx_));
  EXPECT_FALSE(nodes_[0].client->GetCacheInfo(ctx_)->ready);
}

TEST_F(RuntimeServerTest, BeginsAnewWhenItsDirectoryIsEmptied) {
  StartSet(2);
  const JobRequest request = Warmup();
  ASSERT_OK(nodes_[0].client->Post(ctx_, request));
  WaitEnd(request);
  std::filesystem::remove_all(dir_->File("state-0"));
  ASSERT_TRUE(WaitFor([&] {
    auto info = nodes_[0].client->GetCacheInfo(ctx_);
    return info && info->ready && info->peers_generation == 0;
  })) << "it has to be told about the others again";
  EXPECT_CODE(nodes_[0].client->GetResult(ctx_, request.kind, request.name), Code::kNotFound);
  ASSERT_OK(nodes_[0].client->Post(ctx_, request));
  EXPECT_EQ(WaitEnd(request).state, JobState::kSucceeded);
}

}  // namespace
}  // namespace paddleop::runtime
