#include "kube/client/http_cluster_client.h"

#include <gmock/gmock.h>

#include <mutex>

#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "net/testing/raw_server.h"

namespace paddleop::kube {
namespace {

using net::testing::RawConnection;
using net::testing::RawServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Reply(int status, const std::string& body, const std::string& headers = "") {
  return fmt::format(
      "HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}", status,
      body.size(), headers, body);
}

std::string Chunk(const std::string& text) {
  return fmt::format("{:x}\r\n{}\r\n", text.size(), text);
}

constexpr char kConfigMap[] =
    R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"3"}})";

// Credentials that count how often they were refused.
class Numbered final : public Credentials {
 public:
  Result<Credential> Get(const Context&) override {
    return Credential{Secret(fmt::format("token-{}", number_.load())), {}, {}};
  }
  void Invalidate() override { ++number_; }

 private:
  std::atomic<int> number_ = 1;
};

class HttpClusterClientTest : public ::testing::Test {
 protected:
  // Answers the requests of all connections in order with these replies.
  void Serve(std::vector<std::string> replies) {
    replies_ = std::move(replies);
    auto server = RawServer::Start([this](RawConnection& connection, int) {
      for (;;) {
        const std::string request = connection.ReadRequest();
        if (request.empty()) return;
        std::string reply;
        {
          std::lock_guard lock(mutex_);
          requests_.push_back(request);
          if (replies_.empty()) return;
          reply = replies_.front();
          replies_.erase(replies_.begin());
        }
        if (!connection.Send(reply)) return;
      }
    });
    ASSERT_OK(server);
    server_ = *std::move(server);
    ClusterConfig config;
    config.server = fmt::format("http://127.0.0.1:{}", server_->port());
    config.credentials = std::make_shared<Numbered>();
    auto client = HttpClusterClient::Create(std::move(config), {}, metrics_, clock_);
    ASSERT_OK(client);
    client_ = *std::move(client);
    clock_.set_auto_advance(true);
  }
  std::string Request(std::size_t i) {
    std::lock_guard lock(mutex_);
    return i < requests_.size() ? requests_[i] : "";
  }
  double Count(const std::string& verb, const std::string& code) {
    return metrics_
        .AddCounter("paddleop_kube_requests_total", "",
                    {{"verb", verb}, {"resource", "configmaps"}, {"code", code}})
        .Value();
  }

  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(30));
  MetricsRegistry metrics_;
  paddleop::testing::ManualClock clock_;
  std::mutex mutex_;
  std::vector<std::string> replies_;
  std::vector<std::string> requests_;
  std::unique_ptr<RawServer> server_;
  std::unique_ptr<HttpClusterClient> client_;
};

TEST_F(HttpClusterClientTest, SendsTokenAndReadsTheObject) {
  Serve({Reply(200, kConfigMap)});
  const auto object = client_->Get(ctx_, kConfigMaps, {"n", "a"});
  ASSERT_OK(object);
  EXPECT_EQ(object->resource_version, "3");
  EXPECT_THAT(Request(0), HasSubstr("GET /api/v1/namespaces/n/configmaps/a HTTP/1.1\r\n"));
  EXPECT_THAT(Request(0), HasSubstr("Authorization: Bearer token-1\r\n"));
  EXPECT_EQ(Count("get", "200"), 1);
}

TEST_F(HttpClusterClientTest, RenewsARefusedTokenOnce) {
  Serve({Reply(401, "{}"), Reply(200, kConfigMap), Reply(401, "{}"), Reply(401, "{}")});
  EXPECT_OK(client_->Get(ctx_, kConfigMaps, {"n", "a"}));
  EXPECT_THAT(Request(1), HasSubstr("Bearer token-2\r\n"));
  EXPECT_CODE(client_->Get(ctx_, kConfigMaps, {"n", "a"}), Code::kPermission);
}

TEST_F(HttpClusterClientTest, WaitsAsLongAsTheServerAsks) {
  Serve({Reply(429, "{}", "Retry-After: 7\r\n"), Reply(503, "{}", "Retry-After: 2\r\n"),
         Reply(201, kConfigMap), Reply(500, R"({"kind":"Status","message":"boom"})")});
  const auto before = clock_.Now();
  EXPECT_OK(client_->Create(ctx_, kConfigMaps, "n", kConfigMap));
  EXPECT_EQ(clock_.Now() - before, std::chrono::seconds(9));
  EXPECT_EQ(Count("create", "429"), 1);
  EXPECT_EQ(Count("create", "201"), 1);
  const auto failed = client_->Create(ctx_, kConfigMaps, "n", kConfigMap);
  ASSERT_CODE(failed, Code::kUnavailable);
  EXPECT_THAT(failed.error().message(), HasSubstr("create configmaps n: 500: boom"));
}

TEST_F(HttpClusterClientTest, NeverAddressesACollectionByAccident) {
  Serve({});
  EXPECT_CODE(client_->Delete(ctx_, kConfigMaps, {"n", ""}, {}), Code::kInvalid);
  EXPECT_CODE(client_->Get(ctx_, kConfigMaps, {"n", ""}), Code::kInvalid);
  EXPECT_EQ(server_->connections(), 0);
}

TEST_F(HttpClusterClientTest, StreamsAWatchAndEndsWithTheServer) {
  const std::string line = std::string(R"({"type":"ADDED","object":)") + kConfigMap + "}\n";
  // An event that comes in two pieces, and two in one.
  Serve({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + Chunk(line.substr(0, 20)) +
         Chunk(line.substr(20)) + Chunk(line + line) + "0\r\n\r\n"});
  std::vector<std::string> names;
  EXPECT_OK(client_->Watch(ctx_, kConfigMaps, "n", {.resource_version = "1"},
                           [&](const WatchEvent& event) -> Result<void> {
                             names.push_back(event.object.name);
                             return {};
                           }));
  EXPECT_THAT(names, ElementsAre("a", "a", "a"));
  EXPECT_THAT(Request(0), HasSubstr("watch=true&resourceVersion=1"));
}

TEST_F(HttpClusterClientTest, AnExpiredWatchIsToldApart) {
  const auto ignore = [](const WatchEvent&) -> Result<void> { return {}; };
  Serve({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
             Chunk("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,"
                   "\"reason\":\"Expired\"}}\n") +
             "0\r\n\r\n",
         Reply(410, R"({"kind":"Status","code":410,"reason":"Expired"})"), Reply(500, "broken")});
  EXPECT_CODE(client_->Watch(ctx_, kConfigMaps, "n", {.resource_version = "1"}, ignore),
              Code::kExpired);
  EXPECT_CODE(client_->Watch(ctx_, kConfigMaps, "n", {.resource_version = "1"}, ignore),
              Code::kExpired);
  EXPECT_CODE(client_->Watch(ctx_, kConfigMaps, "n", {.resource_version = "1"}, ignore),
              Code::kUnavailable);
}

TEST_F(HttpClusterClientTest, ABrokenWatchIsUnavailable) {
  auto server = RawServer::Start([](RawConnection& connection, int) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + Chunk("\n"));
    connection.Reset();
  });
  ASSERT_OK(server);
  ClusterConfig config;
  config.server = fmt::format("http://127.0.0.1:{}", (*server)->port());
  auto client = HttpClusterClient::Create(std::move(config), {}, metrics_);
  ASSERT_OK(client);
  EXPECT_CODE((*client)->Watch(ctx_, kConfigMaps, "n", {.resource_version = "1"},
                               [](const WatchEvent&) -> Result<void> { return {}; }),
              Code::kUnavailable);
}

TEST_F(HttpClusterClientTest, AnAnswerThatIsNoObjectIsRefused) {
  Serve({Reply(200, "<html>"), Reply(200, R"({"items":7})")});
  EXPECT_CODE(client_->Get(ctx_, kConfigMaps, {"n", "a"}), Code::kInvalid);
  EXPECT_CODE(client_->List(ctx_, kConfigMaps, "n", {}), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::kube
