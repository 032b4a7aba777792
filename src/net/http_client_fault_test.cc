// The client against servers that stall, break off, or send what is not HTTP: a clear status, no
// wait past the deadline, and a client that works afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <latch>
#include <thread>

#include "base/testing/matchers.h"
#include "net/http_client.h"
#include "net/testing/raw_server.h"

namespace paddleop::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using testing::RawConnection;
using testing::RawServer;

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

class HttpClientFaultTest : public ::testing::Test {
 protected:
  void Serve(RawServer::Script script) {
    auto server = RawServer::Start(std::move(script));
    ASSERT_OK(server);
    server_ = *std::move(server);
  }
  // Answers each request by `bytes` and then does nothing until the client closes.
  void ServeBytes(std::string bytes) {
    Serve([bytes = std::move(bytes)](RawConnection& connection, int) {
      if (connection.ReadRequest().empty()) return;
      connection.Send(bytes);
      connection.WaitForClose();
    });
  }
  // As ServeBytes, but closes.
  void ServeAndClose(std::string bytes) {
    Serve([bytes = std::move(bytes)](RawConnection& connection, int) {
      connection.ReadRequest();
      connection.Send(bytes);
    });
  }
  HttpClient& Client(HttpClientOptions options = {}) {
    auto client = HttpClient::Create(std::move(options));
    EXPECT_OK(client);
    client_ = *std::move(client);
    return *client_;
  }
  HttpRequest Get() const { return {.url = server_->Url("/x")}; }

  const Context ctx_ = Context::Background().WithTimeout(seconds(20));
  std::unique_ptr<RawServer> server_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(HttpClientFaultTest, NobodyListens) {
  ServeBytes("");
  const auto url = server_->Url();
  server_.reset();
  auto response = Client().Do(ctx_, {.url = url});
  ASSERT_CODE(response, Code::kUnavailable);
  EXPECT_THAT(response.error().message(), HasSubstr("sent: no"));
  EXPECT_THAT(response.error().message(), HasSubstr("GET " + url));
  EXPECT_CODE(client_->Do(ctx_, {.url = "http://no-such-host.invalid/"}), Code::kUnavailable);
}

TEST_F(HttpClientFaultTest, TheServerNeverAnswers) {
  ServeBytes("");
  const auto start = steady_clock::now();
  auto late = Client().Do(ctx_.WithTimeout(milliseconds(100)), Get());
  ASSERT_CODE(late, Code::kDeadline);
  EXPECT_THAT(late.error().message(), HasSubstr("sent: yes"));
  EXPECT_LT(steady_clock::now() - start, seconds(5));
  auto& impatient = Client({.stall_timeout = milliseconds(100)});
  auto stalled = impatient.Do(ctx_, Get());
  ASSERT_CODE(stalled, Code::kUnavailable);
  EXPECT_THAT(stalled.error().message(), HasSubstr("stalled"));
  auto& careless = Client({.default_timeout = milliseconds(100)});
  EXPECT_CODE(careless.Do(Context::Background(), Get()), Code::kDeadline);
}

TEST_F(HttpClientFaultTest, TheServerAcceptsNoConnection) {
  // TLS needs an answer before the request can be sent; this server gives none.
  ServeBytes("");
  HttpRequest request{.url = fmt::format("https://127.0.0.1:{}/", server_->port())};
  auto response = Client({.connect_timeout = milliseconds(100)}).Do(ctx_, request);
  ASSERT_CODE(response, Code::kUnavailable);
  EXPECT_THAT(response.error().message(), HasSubstr("sent: no"));
}

TEST_F(HttpClientFaultTest, TheBodyStallsHalfWay) {
  ServeBytes("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  EXPECT_CODE(Client({.stall_timeout = milliseconds(100)}).Do(ctx_, Get()), Code::kUnavailable);
  std::string seen;
  const BodySink sink = [&](std::string_view piece) -> Result<void> {
    seen += piece;
    return {};
  };
  EXPECT_CODE(client_->Stream(ctx_, Get(), sink), Code::kUnavailable);
  EXPECT_EQ(seen, "half");
  EXPECT_CODE(Client({.stall_timeout = milliseconds(0)})
                  .Stream(ctx_.WithTimeout(milliseconds(150)), Get(), sink),
              Code::kDeadline);
}

TEST_F(HttpClientFaultTest, ASinkThatTakesItsTimeIsNoStall) {
  Serve([](RawConnection& connection, int) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
    connection.Send("cd");
    connection.WaitForClose();
  });
  auto& client = Client({.stall_timeout = milliseconds(60)});
  EXPECT_OK(client.Stream(ctx_, Get(), [](std::string_view) -> Result<void> {
    std::this_thread::sleep_for(milliseconds(100));
    return {};
  }));
}

TEST_F(HttpClientFaultTest, TheServerTakesNoBody) {
  Serve([](RawConnection& connection, int) {
    // Reads nothing until the client gives up.
    char byte = 0;
    while (::recv(connection.fd(), &byte, 1, MSG_PEEK) > 0) {
      pollfd closed{.fd = connection.fd(), .events = POLLRDHUP, .revents = 0};
      if (::poll(&closed, 1, 100) > 0) return;
    }
  });
  HttpRequest request{.method = "PUT", .url = server_->Url(), .body = std::string(64 << 20, 'x')};
  EXPECT_CODE(Client({.stall_timeout = milliseconds(200)}).Do(ctx_, request), Code::kUnavailable);
}

TEST_F(HttpClientFaultTest, TheServerClosesEarly) {
  for (const char* bytes :
       {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"}) {
    ServeAndClose(bytes);
    auto response = Client().Do(ctx_, Get());
    ASSERT_CODE(response, Code::kUnavailable) << bytes;
    EXPECT_THAT(response.error().message(), HasSubstr("sent: yes")) << bytes;
  }
}

TEST_F(HttpClientFaultTest, TheServerResets) {
  Serve([](RawConnection& connection, int index) {
    connection.ReadRequest();
    if (index % 2 == 1) connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    connection.Reset();
  });
  auto& client = Client();
  for (int i = 0; i < 4; ++i) EXPECT_CODE(client.Do(ctx_, Get()), Code::kUnavailable);
}

TEST_F(HttpClientFaultTest, TheServerFailsAndRecovers) {
  Serve([](RawConnection& connection, int) {
    for (int i = 0; !connection.ReadRequest().empty(); ++i) {
      connection.Send(i % 2 == 0 ? "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
                                 : kOk);
    }
  });
  auto& client = Client();
  for (const int expected : {500, 200, 500, 200}) {
    auto response = client.Do(ctx_, Get());
    ASSERT_OK(response);
    EXPECT_EQ(response->status, expected);
  }
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(HttpClientFaultTest, MalformedResponses) {
  for (const char* bytes :
       {"garbage\r\n\r\n", "\x16\x03\x01\x02", "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n"}) {
    ServeAndClose(bytes);
    EXPECT_CODE(Client().Do(ctx_, Get()), Code::kInvalid) << bytes;
  }
}

TEST_F(HttpClientFaultTest, AFoldedLineBeforeAnyHeader) {
  // libcurl 7.88 appends it to the last header of the response before, long freed.
  Serve([](RawConnection& connection, int) {
    for (int i = 0; !connection.ReadRequest().empty(); ++i) {
      connection.Send(i == 0 ? kOk : "HTTP/1.1 200 OK\r\n folded\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  auto& client = Client();
  for (int i = 0; i < 5; ++i) std::ignore = client.Do(ctx_, Get());
}

TEST_F(HttpClientFaultTest, HugeHeaders) {
  ServeBytes("HTTP/1.1 200 OK\r\nX: " + std::string(400 << 10, 'x') + "\r\n\r\n");
  EXPECT_CODE(Client().Do(ctx_, Get()), Code::kInvalid);

  std::string many = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 10'000; ++i) many += fmt::format("X-{}: some value\r\n", i);
  ServeBytes(many + "\r\n");
  auto response = Client({.max_header_bytes = 64 << 10}).Do(ctx_, Get());
  ASSERT_CODE(response, Code::kInvalid);
  EXPECT_THAT(response.error().message(), HasSubstr("over the limit of 64 KiB"));

  // Interim responses without end count too.
  Serve([](RawConnection& connection, int) {
    connection.ReadRequest();
    while (connection.Send("HTTP/1.1 102 Processing\r\n\r\n")) {
    }
  });
  EXPECT_CODE(Client().Do(ctx_, Get()), Code::kInvalid);
}

TEST_F(HttpClientFaultTest, BodiesOverTheLimit) {
  auto expect_limit = [&](std::string bytes) {
    ServeBytes(std::move(bytes));
    auto response = Client({.max_response_bytes = 1000}).Do(ctx_, Get());
    ASSERT_CODE(response, Code::kInvalid);
    EXPECT_THAT(response.error().message(), HasSubstr("over the limit"));
  };
  // The first is refused before its body comes, the second when it is too much.
  expect_limit("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n");
  expect_limit("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
               std::string(2000, 'x'));
  expect_limit("HTTP/1.1 500 Oops\r\nContent-Length: 5000\r\n\r\n");
  ServeBytes("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + std::string(2000, 'x'));
  std::size_t seen = 0;
  EXPECT_OK(Client({.max_response_bytes = 1000})
                .Stream(ctx_, Get(), [&](std::string_view piece) -> Result<void> {
                  seen += piece.size();
                  return {};
                }));
  EXPECT_EQ(seen, 2000u);
}

TEST_F(HttpClientFaultTest, StoppedInTheMiddle) {
  std::latch half_sent(1);
  Serve([&](RawConnection& connection, int) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    half_sent.count_down();
    connection.WaitForClose();
  });
  std::stop_source stop;
  const auto ctx = ctx_.WithStop(stop.get_token());
  auto& client = Client();
  std::jthread caller([&] { EXPECT_CODE(client.Do(ctx, Get()), Code::kCancelled); });
  half_sent.wait();
  stop.request_stop();
  caller.join();
  EXPECT_CODE(client.Do(ctx, Get()), Code::kCancelled);  // from the start
}

TEST_F(HttpClientFaultTest, TheDeadlineIsKeptByASlowDrip) {
  Serve([](RawConnection& connection, int) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    while (connection.Send("x")) std::this_thread::sleep_for(milliseconds(5));
  });
  const auto start = steady_clock::now();
  EXPECT_CODE(
      Client({.stall_timeout = milliseconds(1000)}).Do(ctx_.WithTimeout(milliseconds(200)), Get()),
      Code::kDeadline);
  EXPECT_LT(steady_clock::now() - start, seconds(5));
}

TEST_F(HttpClientFaultTest, WorksAgainAfterEveryFault) {
  Serve([](RawConnection& connection, int index) {
    if (connection.ReadRequest().empty()) return;
    switch (index) {
      case 0:
        return;
      case 1:
        return connection.Reset();
      case 2:
        connection.Send("nonsense");
        return;
      case 3:
        connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        return;
      default:
        connection.Send(kOk);
        return connection.WaitForClose();
    }
  });
  auto& client = Client();
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(client.Do(ctx_, Get())) << i;
  EXPECT_OK(client.Do(ctx_, Get()));
}

}  // namespace
}  // namespace paddleop::net
