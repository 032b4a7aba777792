// Answers that are written piece by piece, clients that go away, upgraded connections.
#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

using std::chrono::seconds;
using testing::ConnectTo;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::HttpServerTest;
using testing::ReadUntil;
using ::testing::StartsWith;

TEST_F(HttpServerTest, StreamsAreSentAsTheyAreWritten) {
  std::shared_ptr<ResponseStream> stream;
  std::latch opened(1);
  Serve([&](const Context&, const ServerRequest&) {
    ServerResponse response{.headers = {{"Content-Type", "application/json"}}};
    response.stream = [&](std::shared_ptr<ResponseStream> out) {
      stream = std::move(out);
      opened.count_down();
    };
    return response;
  });
  std::vector<std::string> seen;
  std::latch headers(1);
  std::mutex mutex;
  std::jthread reader([&] {
    auto response = client_->Stream(
        ctx_, {.url = Url()},
        [&](std::string_view piece) -> Result<void> {
          const std::lock_guard lock(mutex);
          seen.emplace_back(piece);
          return {};
        },
        [&](const HttpResponse& head) {
          EXPECT_EQ(head.headers.Get("Content-Type"), "application/json");
          headers.count_down();
        });
    EXPECT_OK(response);
  });
  opened.wait();
  headers.wait();  // before anything was written
  for (const std::string piece : {"one", "two", "three"}) {
    EXPECT_OK(stream->Write(piece));
    ASSERT_TRUE(Eventually([&] {
      const std::lock_guard lock(mutex);
      return !seen.empty() && seen.back() == piece;
    }));
  }
  EXPECT_FALSE(stream->Closed());
  stream->Close();
  EXPECT_CODE(stream->Write("late"), Code::kInvalid);
  reader.join();
}

TEST_F(HttpServerTest, DroppingAStreamEndsIt) {
  Serve([](const Context&, const ServerRequest& request) {
    ServerResponse response;
    if (request.path == "/sized") response.headers.Add("Content-Length", "4");
    response.stream = [](const std::shared_ptr<ResponseStream>& out) {
      EXPECT_OK(out->Write("data"));
    };
    return response;
  });
  for (const char* path : {"/", "/sized", "/", "/sized"}) {
    auto response = Get(path);
    ASSERT_OK(response);
    EXPECT_EQ(response->body, "data");
  }
  EXPECT_EQ(server_->open_connections(), 1u);
  auto head = client_->Do(ctx_, {.method = "HEAD", .url = Url()});
  ASSERT_OK(head);
  EXPECT_TRUE(
      Eventually([&] { return metrics_.Serialize().contains("paddleop_http_server_streams 0"); }));
}

TEST_F(HttpServerTest, AStreamOfTheWrongSizeIsCutOff) {
  Serve([](const Context&, const ServerRequest& request) {
    ServerResponse response{.headers = {{"Content-Length", "6"}}};
    const std::string body = request.path == "/short" ? "123" : "123456789";
    response.stream = [body](const std::shared_ptr<ResponseStream>& out) {
      std::ignore = out->Write(body);
    };
    return response;
  });
  EXPECT_CODE(Get("/short"), Code::kUnavailable);
  EXPECT_CODE(Get("/long"), Code::kUnavailable);
}

TEST_F(HttpServerTest, ASlowReaderHoldsTheWriterBack) {
  std::shared_ptr<ResponseStream> stream;
  std::latch opened(1);
  Serve(
      [&](const Context&, const ServerRequest&) {
        ServerResponse response;
        response.stream = [&](std::shared_ptr<ResponseStream> out) {
          stream = std::move(out);
          opened.count_down();
        };
        return response;
      },
      {.max_stream_buffer = 64 << 10});
  std::atomic<bool> read = false;
  std::atomic<std::size_t> received = 0;
  std::jthread reader([&] {
    EXPECT_OK(client_->Stream(ctx_, {.url = Url()}, [&](std::string_view piece) -> Result<void> {
      read.wait(false);
      received += piece.size();
      return {};
    }));
  });
  opened.wait();
  const std::string block(16 << 10, 'x');
  std::size_t written = 0;
  // The kernel's buffers take some; then there is no more room.
  while (stream->TryWrite(block)) {
    written += block.size();
    ASSERT_LT(written, 256u << 20);
    std::this_thread::yield();
  }
  EXPECT_CODE(stream->TryWrite(block), Code::kUnavailable);
  std::jthread writer([&] {
    EXPECT_OK(stream->Write(std::string(1 << 20, 'y')));
    stream->Close();
  });
  read = true;
  read.notify_all();
  writer.join();
  reader.join();
  EXPECT_EQ(received, written + (1 << 20));
}

TEST_F(HttpServerTest, WritersLearnThatTheClientHasGone) {
  std::shared_ptr<ResponseStream> stream;
  std::latch opened(1);
  std::latch closed(1);
  Serve([&](const Context&, const ServerRequest&) {
    ServerResponse response;
    response.stream = [&](std::shared_ptr<ResponseStream> out) {
      out->OnClose([&] { closed.count_down(); });
      stream = std::move(out);
      opened.count_down();
    };
    return response;
  });
  std::stop_source stop;
  std::jthread reader([&] {
    EXPECT_CODE(client_->Stream(ctx_.WithStop(stop.get_token()), {.url = Url()},
                                [](std::string_view) -> Result<void> { return {}; }),
                Code::kCancelled);
  });
  opened.wait();
  stop.request_stop();
  closed.wait();
  EXPECT_CODE(stream->Write("x"), Code::kCancelled);
  EXPECT_TRUE(stream->Closed());
  bool at_once = false;
  stream->OnClose([&] { at_once = true; });
  EXPECT_TRUE(at_once);
}

TEST_F(HttpServerTest, HandlersLearnThatTheClientHasGone) {
  std::latch started(1);
  std::latch stopped(1);
  Serve([&](const Context& ctx, const ServerRequest&) {
    started.count_down();
    Mutex mutex;
    CondVar never;
    MutexLock lock(mutex);
    never.wait(lock, ctx.stop(), [] { return false; });
    stopped.count_down();
    return ServerResponse::Text(200, "");
  });
  std::stop_source stop;
  std::jthread caller([&] {
    EXPECT_CODE(client_->Do(ctx_.WithStop(stop.get_token()), {.url = Url()}), Code::kCancelled);
  });
  started.wait();
  stop.request_stop();
  stopped.wait();
}

TEST_F(HttpServerTest, UpgradedConnectionsCarryBytesBothWays) {
  Serve([&](const Context&, const ServerRequest& request) {
    ServerResponse response{.status = 101,
                            .headers = {{"Connection", "Upgrade"}, {"Upgrade", "echo"}}};
    EXPECT_EQ(request.headers.Get("Upgrade"), "echo");
    response.upgrade = [](const std::shared_ptr<UpgradedConnection>& connection) {
      std::array<char, 100> buffer{};
      for (;;) {
        auto n = connection->Read(Context::Background().WithTimeout(seconds(10)), buffer);
        EXPECT_OK(n);
        if (!n || *n == 0) return;
        if (!connection->Write(std::string_view(buffer.data(), *n))) return;
      }
    };
    return response;
  });
  auto raw = ConnectTo(server_->port());
  ASSERT_OK(raw);
  // The first bytes may come together with the request.
  ASSERT_OK(
      WriteAll(raw->get(),
               "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly"));
  const auto head = ReadUntil(raw->get(), "early", seconds(5));
  EXPECT_THAT(head, StartsWith("HTTP/1.1 101 Switching Protocols\r\n"));
  EXPECT_THAT(head, HasSubstr("Connection: Upgrade\r\n"));
  const std::string large(1 << 20, 'z');
  std::jthread writer([&] { EXPECT_OK(WriteAll(raw->get(), large + "END")); });
  const auto echoed = ReadUntil(raw->get(), "END", seconds(20));
  EXPECT_EQ(echoed.size(), large.size() + 3);
}

}  // namespace
}  // namespace paddleop::net
