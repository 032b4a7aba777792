// The server against clients that send rubbish, too much, or nothing at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <latch>
#include <thread>

#include "base/testing/matchers.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/testing/raw_server.h"

namespace paddleop::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::ConnectTo;
using ::testing::HasSubstr;
using testing::ReadAll;
using ::testing::StartsWith;

class HttpServerFaultTest : public ::testing::Test {
 protected:
  void Serve(HttpServerOptions options = {}) {
    options.metrics = &metrics_;
    auto server =
        HttpServer::Start(std::move(options), [](const Context&, const ServerRequest& request) {
          return ServerResponse::Text(200, request.body);
        });
    ASSERT_OK(server);
    server_ = *std::move(server);
  }
  // Sends the bytes and returns everything that comes until the server closes.
  std::string Answer(std::string_view bytes) {
    auto fd = ConnectTo(server_->port());
    EXPECT_OK(fd);
    std::ignore = WriteAll(fd->get(), bytes);
    return ReadAll(fd->get(), seconds(10));
  }
  bool StillWorks() {
    auto client = HttpClient::Create({});
    return (*client)
        ->Do(ctx_, {.url = fmt::format("http://127.0.0.1:{}/", server_->port())})
        .has_value();
  }

  const Context ctx_ = Context::Background().WithTimeout(seconds(20));
  MetricsRegistry metrics_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerFaultTest, RubbishIsRefusedAndCounted) {
  Serve();
  EXPECT_THAT(Answer("rubbish\r\n\r\n"), StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(Answer(std::string("\x16\x03\x01\x00\xf4\x01", 6) + std::string(300, '\0')),
              StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  const auto answer = Answer("GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("one Host header"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(metrics_.Serialize(),
              HasSubstr("paddleop_http_server_refused_total{reason=\"malformed\"} 3"));
  EXPECT_TRUE(StillWorks());
}

TEST_F(HttpServerFaultTest, WhatFollowsARefusedRequestIsNotRead) {
  Serve();
  const auto answer =
      Answer("GET /%zz HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(answer.find("HTTP/1.1", 10), std::string::npos);
}

TEST_F(HttpServerFaultTest, TooMuchIsRefused) {
  Serve({.max_header_bytes = 1024, .max_body_bytes = 1024});
  EXPECT_THAT(Answer("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(64 << 10, 'x')),
              StartsWith("HTTP/1.1 431 "));
  // The client sends far more than is read; it must still get to see the answer.
  for (const std::string length : {"Content-Length: 1048576", "Transfer-Encoding: chunked"}) {
    EXPECT_THAT(Answer("PUT / HTTP/1.1\r\nHost: h\r\n" + length + "\r\n\r\n100000\r\n" +
                       std::string(1 << 20, 'x')),
                StartsWith("HTTP/1.1 413 "))
        << length;
  }
  EXPECT_THAT(metrics_.Serialize(),
              HasSubstr("paddleop_http_server_refused_total{reason=\"too_large\"} 3"));
  EXPECT_TRUE(StillWorks());
}

TEST_F(HttpServerFaultTest, ASlowHeaderIsCutOff) {
  Serve({.header_timeout = milliseconds(150)});
  auto fd = ConnectTo(server_->port());
  ASSERT_OK(fd);
  std::jthread drip([&](const std::stop_token& stop) {
    std::string_view text = "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ";
    while (!stop.stop_requested()) {
      const auto byte = text.empty() ? std::string_view("x") : text.substr(0, 1);
      if (!text.empty()) text.remove_prefix(1);
      if (::send(fd->get(), byte.data(), 1, MSG_NOSIGNAL) <= 0) return;
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  const auto start = steady_clock::now();
  EXPECT_THAT(testing::ReadUntil(fd->get(), "arrive\n", seconds(10)), StartsWith("HTTP/1.1 408 "));
  EXPECT_LT(steady_clock::now() - start, seconds(5));
  EXPECT_THAT(metrics_.Serialize(),
              HasSubstr("paddleop_http_server_refused_total{reason=\"timeout\"} 1"));
  EXPECT_TRUE(StillWorks());
}

TEST_F(HttpServerFaultTest, ASlowBodyIsCutOff) {
  Serve({.body_timeout = milliseconds(100)});
  EXPECT_THAT(Answer("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf"),
              StartsWith("HTTP/1.1 408 "));
}

TEST_F(HttpServerFaultTest, IdleConnectionsAreClosedWithoutAWord) {
  Serve({.idle_timeout = milliseconds(100)});
  EXPECT_EQ(Answer(""), "");
  const auto after_one = Answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(after_one, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(after_one, ::testing::EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerFaultTest, AReaderThatTakesNothingIsCutOff) {
  HttpServerOptions options{.write_timeout = milliseconds(150), .max_stream_buffer = 64 << 10};
  std::latch gone(1);
  auto server = HttpServer::Start(options, [&](const Context&, const ServerRequest&) {
    ServerResponse response;
    response.stream = [&](const std::shared_ptr<ResponseStream>& out) {
      const std::string block(64 << 10, 'x');
      while (out->Write(block)) {
      }
      gone.count_down();
    };
    return response;
  });
  ASSERT_OK(server);
  auto fd = ConnectTo((*server)->port());
  ASSERT_OK(fd);
  ASSERT_OK(WriteAll(fd->get(), "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  gone.wait();
}

TEST_F(HttpServerFaultTest, ConnectionsBeyondTheLimitAreToldSo) {
  Serve({.max_connections = 2});
  std::vector<UniqueFd> held;
  for (int i = 0; i < 2; ++i) {
    auto fd = ConnectTo(server_->port());
    ASSERT_OK(fd);
    ASSERT_OK(WriteAll(fd->get(), "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    ASSERT_THAT(testing::ReadUntil(fd->get(), "\r\n\r\n", seconds(5)), StartsWith("HTTP/1.1 200"));
    held.push_back(*std::move(fd));
  }
  EXPECT_THAT(Answer(""), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(server_->open_connections(), 2u);
  held.clear();
  const auto end = steady_clock::now() + seconds(10);
  while (server_->open_connections() > 0 && steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(StillWorks());
}

TEST_F(HttpServerFaultTest, ClientsThatVanishLeaveNothing) {
  Serve();
  for (int i = 0; i < 50; ++i) {
    auto fd = ConnectTo(server_->port());
    ASSERT_OK(fd);
    const std::string_view text = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf";
    ASSERT_OK(WriteAll(fd->get(), text.substr(0, static_cast<std::size_t>(i))));
    const linger now{.l_onoff = i % 2, .l_linger = 0};
    ::setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  const auto end = steady_clock::now() + seconds(10);
  while (server_->open_connections() > 0 && steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(server_->open_connections(), 0u);
}

TEST_F(HttpServerFaultTest, AClientThatClosesItsHalfIsAnswered) {
  Serve();
  auto fd = ConnectTo(server_->port());
  ASSERT_OK(fd);
  ASSERT_OK(WriteAll(fd->get(), "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"));
  ::shutdown(fd->get(), SHUT_WR);
  EXPECT_THAT(ReadAll(fd->get(), seconds(10)), ::testing::EndsWith("\r\n\r\nbody"));
}

}  // namespace
}  // namespace paddleop::net
