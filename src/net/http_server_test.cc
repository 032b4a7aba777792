// The server in conversation with our own client. What clients should not do is in
// http_server_fault_test.cc.
#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <latch>
#include <mutex>
#include <thread>

#include "base/mutex.h"
#include "base/testing/matchers.h"
#include "net/http_client.h"
#include "net/testing/http_server_fixture.h"
#include "net/testing/raw_server.h"

namespace paddleop::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::ConnectTo;
using ::testing::EndsWith;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::HttpServerTest;
using testing::ReadUntil;
using ::testing::StartsWith;

ServerResponse Echo(const Context&, const ServerRequest& request) {
  return ServerResponse::Text(200, fmt::format("{} {} q={} b={}", request.method, request.path,
                                               request.Query("q").value_or("-"), request.body));
}

TEST_F(HttpServerTest, AnswersRequests) {
  Serve(Echo);
  auto get = Get("/a%20b?q=x%26y+z");
  ASSERT_OK(get);
  EXPECT_EQ(get->status, 200);
  EXPECT_EQ(get->body, "GET /a b q=x&y z b=");
  EXPECT_EQ(get->headers.Get("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_TRUE(get->headers.Get("Date"));
  auto post = client_->Do(ctx_, {.method = "POST", .url = Url(), .body = "hello"});
  ASSERT_OK(post);
  EXPECT_EQ(post->body, "POST / q=- b=hello");
  EXPECT_EQ(server_->open_connections(), 1u);
  EXPECT_THAT(metrics_.Serialize(),
              HasSubstr("paddleop_http_server_responses_total{code=\"2xx\"} 2"));
}

TEST_F(HttpServerTest, HeadAndEmptyStatusesHaveNoBody) {
  Serve([](const Context&, const ServerRequest& request) {
    if (request.path == "/none") return ServerResponse{.status = 204, .body = "ignored"};
    return ServerResponse::Json(200, "{}");
  });
  auto head = client_->Do(ctx_, {.method = "HEAD", .url = Url()});
  ASSERT_OK(head);
  EXPECT_EQ(head->headers.Get("Content-Length"), "2");
  EXPECT_EQ(head->body, "");
  auto none = Get("/none");
  ASSERT_OK(none);
  EXPECT_EQ(none->status, 204);
  EXPECT_EQ(none->headers.Get("Content-Length"), std::nullopt);
  auto after = Get();
  ASSERT_OK(after);
  EXPECT_EQ(after->body, "{}");
  EXPECT_EQ(server_->open_connections(), 1u);
}

TEST_F(HttpServerTest, HandlersCannotBreakTheResponse) {
  Serve([](const Context&, const ServerRequest& request) -> ServerResponse {
    if (request.path == "/throw") throw std::runtime_error("library");
    auto response = ServerResponse::Text(200, "x");
    if (request.path == "/split") response.headers.Add("X", "a\r\nInjected: 1");
    response.headers.Add("Content-Length", "99");
    response.headers.Add("Transfer-Encoding", "chunked");
    return response;
  });
  auto plain = Get();
  ASSERT_OK(plain);
  EXPECT_EQ(plain->body, "x");
  auto split = Get("/split");
  ASSERT_OK(split);
  EXPECT_EQ(split->status, 500);
  EXPECT_FALSE(split->headers.Get("Injected"));
  auto thrown = Get("/throw");
  ASSERT_OK(thrown);
  EXPECT_EQ(thrown->status, 500);
}

TEST_F(HttpServerTest, LargeBodiesGoBothWays) {
  Serve([](const Context&, const ServerRequest& request) {
    return ServerResponse::Text(200, request.body);
  });
  std::string large(8 << 20, 'x');
  for (std::size_t i = 0; i < large.size(); i += 4096)
    large[i] = static_cast<char>('a' + i / 4096 % 26);
  auto echoed = client_->Do(ctx_, {.method = "PUT", .url = Url(), .body = large});
  ASSERT_OK(echoed);
  EXPECT_TRUE(echoed->body == large);
  std::size_t offset = 0;
  const BodySource source = [&](std::span<char> out) -> Result<std::size_t> {
    const auto n = std::min(out.size(), large.size() - offset);
    large.copy(out.data(), n, offset);
    offset += n;
    return n;
  };
  std::string received;
  auto chunked = client_->Stream(ctx_, {.method = "PUT", .url = Url(), .body_source = source},
                                 [&](std::string_view piece) -> Result<void> {
                                   received += piece;
                                   return {};
                                 });
  ASSERT_OK(chunked);
  EXPECT_TRUE(received == large);
}

TEST_F(HttpServerTest, ExpectContinueIsAnswered) {
  Serve(Echo);
  HttpRequest request{.method = "PUT", .url = Url(), .body = "data"};
  request.headers.Add("Expect", "100-continue");
  auto response = client_->Do(ctx_, request);
  ASSERT_OK(response);
  EXPECT_EQ(response->body, "PUT / q=- b=data");

  auto raw = ConnectTo(server_->port());
  ASSERT_OK(raw);
  ASSERT_OK(
      WriteAll(raw->get(),
               "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(ReadUntil(raw->get(), "\r\n\r\n", seconds(5)), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_OK(WriteAll(raw->get(), "ab"));
  EXPECT_THAT(ReadUntil(raw->get(), "b=ab", seconds(5)), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  Serve(Echo);
  auto raw = ConnectTo(server_->port());
  ASSERT_OK(raw);
  std::string all;
  for (int i = 0; i < 50; ++i) all += fmt::format("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", i);
  ASSERT_OK(WriteAll(raw->get(), all));
  const auto answers = ReadUntil(raw->get(), "GET /49 q=- b=", seconds(10));
  std::size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = answers.find(fmt::format("GET /{} q", i), at);
    ASSERT_NE(at, std::string::npos) << i;
  }
}

TEST_F(HttpServerTest, OldClientsAreServedAndClosed) {
  Serve([](const Context&, const ServerRequest& request) {
    if (request.path == "/plain") return ServerResponse::Text(200, "whole");
    ServerResponse response;
    response.stream = [](const std::shared_ptr<ResponseStream>& out) {
      EXPECT_OK(out->Write("streamed"));
    };
    return response;
  });
  for (const auto& [path, body] :
       {std::pair("/plain", "whole"), std::pair("/stream", "streamed")}) {
    auto raw = ConnectTo(server_->port());
    ASSERT_OK(raw);
    ASSERT_OK(WriteAll(raw->get(), fmt::format("GET {} HTTP/1.0\r\n\r\n", path)));
    const auto answer = testing::ReadAll(raw->get(), seconds(5));
    EXPECT_THAT(answer, EndsWith(std::string("\r\n\r\n") + body));
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  }
}

TEST_F(HttpServerTest, StopLetsRequestsInFlightFinish) {
  std::latch started(1);
  std::latch release(1);
  Serve([&](const Context&, const ServerRequest& request) {
    if (request.path == "/slow") {
      started.count_down();
      release.wait();
    }
    return ServerResponse::Text(200, "done");
  });
  ASSERT_OK(Get("/idle"));
  std::jthread caller([&] {
    auto response = Get("/slow");
    EXPECT_OK(response);
    EXPECT_EQ(response->body, "done");
    EXPECT_EQ(response->headers.Get("Connection"), "close");
  });
  started.wait();
  std::jthread stopper([&] { server_->Stop(seconds(10)); });
  // Nobody gets in any more.
  ASSERT_TRUE(Eventually([&] { return !ConnectTo(server_->port()); }));
  release.count_down();
  stopper.join();
  EXPECT_EQ(server_->open_connections(), 0u);
  server_->Stop(seconds(1));
}

TEST_F(HttpServerTest, StopEndsStreamsCleanly) {
  std::shared_ptr<ResponseStream> stream;
  std::latch opened(1);
  std::latch closed(1);
  Serve([&](const Context&, const ServerRequest&) {
    ServerResponse response;
    response.stream = [&](std::shared_ptr<ResponseStream> out) {
      EXPECT_OK(out->Write("last words"));
      out->OnClose([&] { closed.count_down(); });
      stream = std::move(out);
      opened.count_down();
    };
    return response;
  });
  std::jthread reader([&] {
    auto response = Get();
    EXPECT_OK(response);
    EXPECT_EQ(response->body, "last words");
  });
  opened.wait();
  server_->Stop(seconds(10));
  closed.wait();
  reader.join();
  server_.reset();
  EXPECT_CODE(stream->Write("x"), Code::kCancelled);  // it may outlive the server
}

TEST_F(HttpServerTest, StopDoesNotWaitLongerThanItsGrace) {
  std::latch started(1);
  Serve([&](const Context& ctx, const ServerRequest&) {
    started.count_down();
    Mutex mutex;
    CondVar never;
    MutexLock lock(mutex);
    never.wait(lock, ctx.stop(), [] { return false; });
    return ServerResponse::Text(200, "");
  });
  std::jthread caller([&] { EXPECT_CODE(Get(), Code::kUnavailable); });
  started.wait();
  const auto start = steady_clock::now();
  server_->Stop(milliseconds(50));
  EXPECT_LT(steady_clock::now() - start, seconds(5));
}

TEST_F(HttpServerTest, ManyThreadsAtOnce) {
  Serve(Echo);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 32; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        auto response = client_->Do(
            ctx_, {.method = "POST", .url = Url(fmt::format("/{}", t)), .body = fmt::to_string(i)});
        ASSERT_OK(response);
        ASSERT_EQ(response->body, fmt::format("POST /{} q=- b={}", t, i));
      }
    });
  }
}

TEST_F(HttpServerTest, UnixSocketsWork) {
  auto dir = TempDir::Create();
  ASSERT_OK(dir);
  const auto path = dir->File("s.sock");
  Serve([](const Context&,
           const ServerRequest& request) { return ServerResponse::Text(200, request.remote); },
        {.unix_socket = path});
  auto client = HttpClient::Create({.unix_socket = path});
  ASSERT_OK(client);
  auto response = (*client)->Do(ctx_, {.url = "http://anything/x"});
  ASSERT_OK(response);
  EXPECT_EQ(response->body, "unix");
  EXPECT_CODE(HttpServer::Start({.unix_socket = path}, Echo), Code::kUnavailable);
  server_.reset();
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST_F(HttpServerTest, ASocketThatAnotherServerPutThereStays) {
  auto dir = TempDir::Create();
  ASSERT_OK(dir);
  const auto path = dir->File("s.sock");
  Serve(Echo, {.unix_socket = path});
  ASSERT_EQ(::unlink(path.c_str()), 0);
  auto next = HttpServer::Start({.unix_socket = path}, [](const Context&, const ServerRequest&) {
    return ServerResponse::Text(200, "the next");
  });
  ASSERT_OK(next);
  server_.reset();
  auto client = HttpClient::Create({.unix_socket = path});
  ASSERT_OK(client);
  auto response = (*client)->Do(ctx_, {.url = "http://anything/x"});
  ASSERT_OK(response);
  EXPECT_EQ(response->body, "the next");
}

TEST_F(HttpServerTest, AnAddressThatCannotBeBoundIsNamed) {
  Serve(Echo);
  auto taken = HttpServer::Start({.port = server_->port()}, Echo);
  ASSERT_CODE(taken, Code::kUnavailable);
  EXPECT_THAT(taken.error().message(), HasSubstr(fmt::format("127.0.0.1:{}", server_->port())));
  EXPECT_CODE(HttpServer::Start({.io_threads = 0}, Echo), Code::kInvalid);
}

TEST_F(HttpServerTest, AFullQueueIsAnsweredWithBusy) {
  std::latch release(1);
  std::latch running(1);
  std::atomic<int> handled = 0;
  Serve(
      [&](const Context&, const ServerRequest&) {
        if (++handled == 1) running.count_down();
        release.wait();
        return ServerResponse::Text(200, "");
      },
      {.handler_threads = 1, .max_queued_requests = 1});
  std::jthread first([&] { EXPECT_OK(Get()); });
  running.wait();
  // One is handled: of the next three one waits, whichever comes first, and two are refused.
  std::atomic<int> refused = 0;
  std::atomic<int> answered = 0;
  std::vector<std::jthread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      auto response = Get();
      ASSERT_OK(response);
      if (response->status == 200) return void(++answered);
      EXPECT_EQ(response->status, 503);
      EXPECT_EQ(response->headers.Get("Retry-After"), "1");
      ++refused;
    });
  }
  EXPECT_TRUE(Eventually([&] { return refused == 2; }));
  release.count_down();
  others.clear();
  EXPECT_EQ(answered, 1);
  EXPECT_THAT(metrics_.Serialize(),
              HasSubstr("paddleop_http_server_refused_total{reason=\"overloaded\"} 2"));
}

// The median: one slow answer on a busy machine proves nothing, all of them would.
milliseconds MedianTime(const std::function<void()>& call) {
  std::vector<steady_clock::duration> times;
  for (int i = 0; i < 21; ++i) {
    const auto start = steady_clock::now();
    call();
    times.push_back(steady_clock::now() - start);
  }
  std::ranges::nth_element(times, times.begin() + 10);
  return std::chrono::duration_cast<milliseconds>(times[10]);
}

TEST_F(HttpServerTest, AnswersInMillisecondsBesideAThousandIdleConnectionsAndManyStreams) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);

  std::mutex mutex;
  std::vector<std::shared_ptr<ResponseStream>> streams;
  Serve([&](const Context&, const ServerRequest& request) {
    if (request.path == "/healthz") return ServerResponse::Text(200, "ok");
    ServerResponse response;
    response.stream = [&](std::shared_ptr<ResponseStream> out) {
      const std::lock_guard lock(mutex);
      streams.push_back(std::move(out));
    };
    return response;
  });
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 1000; ++i) {
    auto fd = ConnectTo(server_->port());
    ASSERT_OK(fd);
    idle.push_back(*std::move(fd));
  }
  constexpr std::size_t kStreams = 300;
  for (std::size_t i = 0; i < kStreams; ++i) {
    auto fd = ConnectTo(server_->port());
    ASSERT_OK(fd);
    ASSERT_OK(WriteAll(fd->get(), "GET /watch HTTP/1.1\r\nHost: h\r\n\r\n"));
    idle.push_back(*std::move(fd));
  }
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return streams.size() == kStreams && server_->open_connections() == 1000 + kStreams;
  }));
  EXPECT_LT(MedianTime([&] { EXPECT_OK(Get("/healthz")); }), milliseconds(20));
  const std::lock_guard lock(mutex);
  for (const auto& stream : streams) EXPECT_OK(stream->Write("event\n"));
  EXPECT_THAT(ReadUntil(idle.back().get(), "event\n\r\n", seconds(10)), EndsWith("event\n\r\n"));
}

}  // namespace
}  // namespace paddleop::net
