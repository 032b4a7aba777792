#include "standalone/node/endpoint/endpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "kube/testing/wait_until.h"
#include "net/http_client.h"
#include "net/stream.h"
#include "standalone/node/endpoint/endpoint_files.h"
#include "standalone/node/process/container_process.h"

namespace paddleop::standalone::node {
namespace {

constexpr char kSelf[] = "/proc/self/exe";

// A client's frame: masked, here with zeros, which changes nothing.
std::string Masked(std::string_view payload) {
  std::string out = "\x82";
  out += static_cast<char>(0x80 | static_cast<int>(payload.size()));
  out += std::string(4, '\0');
  out += payload;
  return out;
}

class EndpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tls = EndpointCertificate(dir_->path() + "/tls", {"127.0.0.1"}, Clock::System());
    ASSERT_OK(tls);
    EndpointOptions options;
    options.tls = *tls;
    options.token = Secret("right");
    options.data_dir = dir_->path();
    options.program = kSelf;
    options.max_sessions = 4;
    auto endpoint = Endpoint::Start(
        std::move(options),
        [](const api::ObjectKey& key) -> std::optional<std::string> {
          if (key.name == "pod") return "uid";
          return std::nullopt;
        },
        log_, metrics_);
    ASSERT_OK(endpoint);
    endpoint_ = *std::move(endpoint);
    net::HttpClientOptions client;
    client.tls.insecure_skip_verify = true;
    client_ = *net::HttpClient::Create(client);
  }
  void TearDown() override {
    if (state_) KillContainer(*state_);
    kube::testing::WaitUntil([&] { return !state_ || !state_->shim.Alive(); });
  }
  void Run(const std::string& script) {
    ShimSpec spec;
    spec.argv = {"sh", "-c", script};
    spec.env = {{"PATH", "/usr/bin:/bin"}, {"WHO", "container"}};
    spec.cwd = "/tmp";
    spec.directory = dir_->path() + "/pods/uid/containers/main/1";
    auto state = StartContainer(ctx_, kSelf, spec);
    ASSERT_OK(state);
    state_ = *state;
  }
  Result<net::HttpResponse> Get(const std::string& path, const std::string& token = "right") {
    net::HttpRequest request;
    request.url = fmt::format("https://127.0.0.1:{}{}", endpoint_->port(), path);
    request.headers.Set("Authorization", "Bearer " + token);
    return client_->Do(ctx_, std::move(request));
  }
  // All that the server sends in a session of `command`, after its headers; `input` goes first.
  std::string Exec(const std::string& command, const std::string& input) {
    net::DialOptions dial{.host = "127.0.0.1", .port = endpoint_->port(), .use_tls = true};
    dial.tls.insecure_skip_verify = true;
    auto stream = net::Dial(ctx_, dial);
    EXPECT_OK(stream);
    EXPECT_OK((*stream)->WriteAll(
        ctx_,
        "GET /exec/default/pod/main?stdin=true&stdout=true&stderr=true&" + command +
            " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer right\r\nConnection: Upgrade\r\n"
            "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"));
    if (!input.empty()) {
      EXPECT_OK((*stream)->WriteAll(ctx_, Masked(std::string(1, '\0') + input)));
      EXPECT_OK((*stream)->WriteAll(ctx_, Masked(std::string("\xff\0", 2))));
    }
    std::string out;
    std::array<char, 4096> buffer{};
    for (;;) {
      const auto n = (*stream)->Read(ctx_, buffer);
      if (!n || *n == 0) break;
      out.append(buffer.data(), *n);
    }
    return out;
  }

  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(90));
  Result<TempDir> dir_ = TempDir::Create();
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<net::HttpClient> client_;
  std::optional<ProcessState> state_;
};

TEST_F(EndpointTest, KeepsStrangersOut) {
  EXPECT_EQ(Get("/containerLogs/default/pod/main", "wrong")->status, 401);
  EXPECT_EQ(Get("/exec/default/pod/main?command=id", "")->status, 401);
  EXPECT_EQ(Get("/healthz", "")->status, 200);
  EndpointOptions open;
  open.tls.cert_file = "x";
  EXPECT_CODE(Endpoint::Start(open, {}, log_, metrics_), Code::kInvalid);
}

TEST_F(EndpointTest, NamesWhatIsNotThere) {
  EXPECT_EQ(Get("/containerLogs/default/other/main")->status, 404);
  EXPECT_EQ(Get("/containerLogs/default/pod/main")->status, 400);
  EXPECT_EQ(Get("/containerLogs/default/pod/..%2f..%2fetc")->status, 404);
  EXPECT_EQ(Get("/stats")->status, 404);
}

TEST_F(EndpointTest, LogsAreReadAndFollowed) {
  Run("echo one; echo two; sleep 1; echo three");
  const auto all = Get("/containerLogs/default/pod/main?follow=true");
  ASSERT_OK(all);
  EXPECT_EQ(all->body, "one\ntwo\nthree\n") << "until the container ended";
  EXPECT_EQ(Get("/containerLogs/default/pod/main?tailLines=1")->body, "three\n");
  EXPECT_EQ(Get("/containerLogs/default/pod/main?previous=true")->status, 400);
}

TEST_F(EndpointTest, ManyAtATimeAreServedOrRefused) {
  Run("echo one; until test -e " + dir_->path() + "/end; do sleep 0.05; done; echo two");
  std::atomic<int> refused = 0;
  std::atomic<int> whole = 0;
  {
    std::vector<std::jthread> readers;
    readers.reserve(8);
    for (int i = 0; i < 8; ++i) {
      readers.emplace_back([&] {
        const auto all = Get("/containerLogs/default/pod/main?follow=true");
        if (all && all->status == 503) ++refused;
        if (all && all->body == "one\ntwo\n") ++whole;
      });
    }
    EXPECT_TRUE(kube::testing::WaitUntil([&] { return refused == 4; }));
    ASSERT_OK(WriteFileAtomic(dir_->path() + "/end", ""));
  }
  EXPECT_EQ(whole, 4);
  EXPECT_TRUE(kube::testing::WaitUntil(
      [&] { return Get("/containerLogs/default/pod/main")->body == "one\ntwo\n"; }));
}

TEST_F(EndpointTest, CommandsRunWhereTheContainerRuns) {
  Run("sleep 600");
  const std::string out =
      Exec("command=sh&command=-c&command=cat%3B+pwd%3B+echo+%24WHO%3B+exit+3", "typed ");
  EXPECT_NE(out.find("101"), std::string::npos);
  EXPECT_NE(out.find("typed "), std::string::npos) << out;
  EXPECT_NE(out.find("/tmp\n"), std::string::npos) << out;
  EXPECT_NE(out.find("container\n"), std::string::npos) << out;
  EXPECT_NE(out.find("exit code 3"), std::string::npos) << out;
}

}  // namespace
}  // namespace paddleop::standalone::node
