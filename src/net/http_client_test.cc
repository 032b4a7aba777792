// The client against servers that do exactly what the test says. Whole conversations with our own
// server are in http_server_test.cc, faults in http_client_fault_test.cc.
#include "net/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <latch>
#include <thread>

#include "base/crc32c.h"
#include "base/testing/matchers.h"
#include "net/testing/raw_server.h"

namespace paddleop::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RawConnection;
using testing::RawServer;
using ::testing::StartsWith;

std::string Ok(std::string_view body) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Test: yes\r\n\r\n{}", body.size(),
                     body);
}

// Answers every request with its own text, keeping the connection.
void EchoRaw(RawConnection& connection, int) {
  for (std::string request; !(request = connection.ReadRequest()).empty();)
    connection.Send(Ok(request));
}

class HttpClientTest : public ::testing::Test {
 protected:
  void Serve(RawServer::Script script) {
    auto started = RawServer::Start(std::move(script));
    ASSERT_OK(started);
    server_ = *std::move(started);
  }
  HttpClient& Client(HttpClientOptions options = {}) {
    auto client = HttpClient::Create(std::move(options));
    EXPECT_OK(client);
    client_ = *std::move(client);
    return *client_;
  }
  HttpRequest Get(std::string_view path = "/") { return {.url = server_->Url(path)}; }

  const Context ctx_ = Context::Background().WithTimeout(seconds(20));
  std::unique_ptr<RawServer> server_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(HttpClientTest, ReturnsStatusHeadersAndBody) {
  Serve(EchoRaw);
  auto response = Client().Do(ctx_, Get("/a/../b?x=1"));
  ASSERT_OK(response);
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->headers.Get("x-test"), "yes");
  EXPECT_THAT(response->body, StartsWith("GET /a/../b?x=1 HTTP/1.1\r\n"));
  EXPECT_THAT(response->body, HasSubstr("User-Agent: paddle-operator\r\n"));
}

TEST_F(HttpClientTest, EveryMethodSendsItsBody) {
  Serve(EchoRaw);
  auto& client = Client();
  for (const std::string method : {"POST", "PUT", "PATCH", "DELETE", "GET"}) {
    auto request = Get();
    request.method = method;
    request.body = "some body";
    auto response = client.Do(ctx_, request);
    ASSERT_OK(response);
    EXPECT_THAT(response->body, StartsWith(method + " / HTTP/1.1\r\n"));
    EXPECT_THAT(response->body, HasSubstr("Content-Length: 9\r\n"));
    EXPECT_THAT(response->body, Not(HasSubstr("Content-Type")));
    EXPECT_THAT(response->body, Not(HasSubstr("Expect")));
    EXPECT_TRUE(response->body.ends_with("\r\n\r\nsome body")) << response->body;
    request.body.clear();
    auto without = client.Do(ctx_, request);
    ASSERT_OK(without);
    EXPECT_THAT(without->body, StartsWith(method + " / HTTP/1.1\r\n"));
    EXPECT_TRUE(without->body.ends_with("\r\n\r\n")) << without->body;
  }
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(HttpClientTest, HeadersAreSentAsGivenAndCannotBeInjected) {
  Serve(EchoRaw);
  auto request = Get();
  request.headers = {{"X-One", "1"}, {"X-Empty", ""}, {"X-One", "2"}, {"Content-Type", "a/b"}};
  request.method = "POST";
  auto response = Client().Do(ctx_, request);
  ASSERT_OK(response);
  EXPECT_THAT(response->body, HasSubstr("X-One: 1\r\n"));
  EXPECT_THAT(response->body, HasSubstr("X-One: 2\r\n"));
  EXPECT_THAT(response->body, HasSubstr("X-Empty:\r\n"));
  EXPECT_THAT(response->body, HasSubstr("Content-Type: a/b\r\n"));
  for (const auto& [name, value] :
       HttpHeaders{{"X", "a\r\nY: b"}, {"X\n", "a"}, {"", "a"}, {"a b", "c"}}) {
    request.headers = {{name, value}};
    EXPECT_CODE(client_->Do(ctx_, request), Code::kInvalid);
  }
  request.headers = {};
  request.method = "GET /x HTTP/1.1\r\nX: y";
  EXPECT_CODE(client_->Do(ctx_, request), Code::kInvalid);
}

TEST_F(HttpClientTest, HeadHasNoBody) {
  Serve([](RawConnection& connection, int) {
    while (!connection.ReadRequest().empty()) {
      connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n");
    }
  });
  auto request = Get();
  request.method = "HEAD";
  auto response = Client().Do(ctx_, request);
  ASSERT_OK(response);
  EXPECT_EQ(response->headers.Get("Content-Length"), "99999999999");
  EXPECT_EQ(response->body, "");
}

TEST_F(HttpClientTest, StatusesOutsideSuccessAreResponsesToo) {
  Serve([](RawConnection& connection, int) {
    while (!connection.ReadRequest().empty()) {
      connection.Send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy");
    }
  });
  auto& client = Client();
  auto response = client.Do(ctx_, Get());
  ASSERT_OK(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->body, "busy");

  std::array<std::byte, 2> small{};
  std::size_t received = 99;
  auto into = client.DoInto(ctx_, Get(), small, &received);
  ASSERT_OK(into);
  EXPECT_EQ(into->body, "busy");
  EXPECT_EQ(received, 0u);

  auto streamed = client.Stream(ctx_, Get(), [](std::string_view) -> Result<void> {
    ADD_FAILURE() << "the sink is for 2xx";
    return {};
  });
  ASSERT_OK(streamed);
  EXPECT_EQ(streamed->body, "busy");
}

TEST_F(HttpClientTest, FillsTheCallersBuffer) {
  Serve([](RawConnection& connection, int) {
    while (!connection.ReadRequest().empty()) connection.Send(Ok("0123456789"));
  });
  auto& client = Client();
  std::array<std::byte, 16> buffer{};
  std::size_t received = 0;
  auto response = client.DoInto(ctx_, Get(), buffer, &received);
  ASSERT_OK(response);
  EXPECT_EQ(received, 10u);
  EXPECT_EQ(response->body, "");
  EXPECT_EQ(std::string_view(reinterpret_cast<char*>(buffer.data()), received), "0123456789");
  EXPECT_OK(client.DoInto(ctx_, Get(), std::span(buffer).first(10), &received));
  EXPECT_CODE(client.DoInto(ctx_, Get(), std::span(buffer).first(9), &received), Code::kInvalid);
}

TEST_F(HttpClientTest, ChecksTheBufferWhileItFills) {
  const std::string body(300'000, 'b');
  Serve([&](RawConnection& connection, int) {
    while (!connection.ReadRequest().empty()) connection.Send(Ok(body));
  });
  std::vector<std::byte> buffer(body.size());
  std::size_t received = 0;
  HttpRequest request = Get();
  EXPECT_EQ(Client().DoInto(ctx_, request, buffer, &received)->crc32c, std::nullopt);
  request.checksum_if = "X-None";
  EXPECT_EQ(Client().DoInto(ctx_, request, buffer, &received)->crc32c, std::nullopt);
  request.checksum_if = "content-length";
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(Client().DoInto(ctx_, request, buffer, &received)->crc32c, Crc32c(body));
}

TEST_F(HttpClientTest, StreamsTheBodyAsItComes) {
  std::latch first_seen(1);
  Serve([&](RawConnection& connection, int) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    first_seen.wait();
    connection.Send("6\r\nsecond\r\n0\r\nX-Trailer: 1\r\n\r\n");
    connection.WaitForClose();
  });
  std::vector<std::string> pieces;
  int headers = 0;
  auto response = Client().Stream(
      ctx_, Get(),
      [&](std::string_view piece) -> Result<void> {
        EXPECT_EQ(headers, 1);
        pieces.emplace_back(piece);
        if (pieces.size() == 1) first_seen.count_down();
        return {};
      },
      [&](const HttpResponse& head) {
        EXPECT_EQ(head.status, 200);
        ++headers;
      });
  ASSERT_OK(response);
  EXPECT_THAT(pieces, ::testing::ElementsAre("first", "second"));
  EXPECT_EQ(headers, 1);
}

TEST_F(HttpClientTest, AnErrorOfTheSinkIsTheErrorOfTheCall) {
  Serve(EchoRaw);
  auto response = Client().Stream(ctx_, Get(), [](std::string_view) -> Result<void> {
    return Fail(Code::kNoSpace, "disk full");
  });
  ASSERT_CODE(response, Code::kNoSpace);
  EXPECT_EQ(response.error().message(), "disk full");
  EXPECT_OK(client_->Do(ctx_, Get()));
}

TEST_F(HttpClientTest, StreamsARequestBody) {
  Serve([](RawConnection& connection, int) {
    std::string all;
    while (!all.contains("\r\n0\r\n\r\n")) {
      const auto more = connection.ReadSome();
      if (more.empty()) return;
      all += more;
    }
    connection.Send(Ok(all));
    EchoRaw(connection, 0);
  });
  int pieces = 0;
  const BodySource source = [&](std::span<char> out) -> Result<std::size_t> {
    if (pieces == 3) return 0;
    ++pieces;
    out[0] = static_cast<char>('a' + pieces);
    return 1;
  };
  auto request = Get();
  request.method = "PUT";
  request.body_source = source;
  auto chunked = Client().Do(ctx_, request);
  ASSERT_OK(chunked);
  EXPECT_THAT(chunked->body, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(chunked->body, ::testing::EndsWith("\r\n0\r\n\r\n"));

  pieces = 0;
  request.body_size = 3;
  auto sized = client_->Do(ctx_, request);
  ASSERT_OK(sized);
  EXPECT_THAT(sized->body, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(sized->body, ::testing::EndsWith("\r\n\r\nbcd"));

  pieces = 0;
  request.body_size = 4;
  EXPECT_CODE(client_->Do(ctx_, request), Code::kInvalid);
  request.body_source = [](std::span<char>) -> Result<std::size_t> {
    return Fail(Code::kCorrupt, "bad block");
  };
  EXPECT_CODE(client_->Do(ctx_, request), Code::kCorrupt);
}

TEST_F(HttpClientTest, ConnectionsAreKeptAndSharedByThreads) {
  Serve(EchoRaw);
  auto& client = Client();
  constexpr int kThreads = 32, kRequests = 20;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kRequests; ++i) {
          const auto path = fmt::format("/{}/{}", t, i);
          auto response = client.Do(ctx_, Get(path));
          ASSERT_OK(response);
          ASSERT_THAT(response->body, StartsWith("GET " + path + " "));
        }
      });
    }
  }
  EXPECT_LE(server_->connections(), kThreads);
}

TEST_F(HttpClientTest, CallsBeyondTheLimitWaitForAConnection) {
  std::latch release(1);
  std::latch both_busy(2);
  Serve([&](RawConnection& connection, int) {
    while (!connection.ReadRequest().empty()) {
      if (!both_busy.try_wait()) both_busy.count_down();
      release.wait();
      connection.Send(Ok("x"));
    }
  });
  auto& client = Client({.max_connections_per_host = 2});
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { EXPECT_OK(client.Do(ctx_, Get())); });
  both_busy.wait();
  auto late = client.Do(ctx_.WithTimeout(milliseconds(50)), Get());
  ASSERT_CODE(late, Code::kDeadline);
  EXPECT_THAT(late.error().message(), HasSubstr("stayed busy"));
  std::stop_source stop;
  std::jthread stopped(
      [&] { EXPECT_CODE(client.Do(ctx_.WithStop(stop.get_token()), Get()), Code::kCancelled); });
  std::jthread waiting([&] { EXPECT_OK(client.Do(ctx_, Get())); });
  stop.request_stop();
  stopped.join();
  release.count_down();
  threads.clear();
  waiting.join();
  EXPECT_EQ(server_->connections(), 2);
}

TEST_F(HttpClientTest, AConnectionTheServerClosedMeanwhileIsReplaced) {
  Serve([](RawConnection& connection, int) {
    connection.ReadRequest();
    connection.Send(Ok("x"));
  });
  auto& client = Client();
  for (int i = 0; i < 5; ++i) {
    auto request = Get();
    request.method = i % 2 == 0 ? "GET" : "PUT";
    EXPECT_OK(client.Do(ctx_, request));
  }
  EXPECT_EQ(server_->connections(), 5);
}

TEST_F(HttpClientTest, ARequestThatMayHaveArrivedIsRepeatedOnlyWhereThatDoesNoHarm) {
  // The second request on the first connection gets no answer.
  Serve([](RawConnection& connection, int index) {
    connection.ReadRequest();
    connection.Send(Ok("x"));
    if (connection.ReadRequest().empty() || index % 2 == 0) return;
    connection.Send(Ok("y"));
  });
  auto& client = Client();
  auto post = Get();
  post.method = "POST";
  post.body = "create";
  ASSERT_OK(client.Do(ctx_, post));
  auto lost = client.Do(ctx_, post);
  ASSERT_CODE(lost, Code::kUnavailable);
  EXPECT_THAT(lost.error().message(), HasSubstr("sent: yes"));
  EXPECT_TRUE(lost.error().maybe_done());
  // Connected again, but sent nothing; the server may take a moment to notice.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (server_->connections() < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server_->connections(), 2);
}

TEST_F(HttpClientTest, RedirectsAreFollowedOnlyWhenAsked) {
  Serve([](RawConnection& connection, int) {
    for (std::string request; !(request = connection.ReadRequest()).empty();) {
      if (request.contains(" /old ")) {
        connection.Send("HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 4\r\n\r\nmove");
      } else if (request.contains(" /loop ")) {
        connection.Send("HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n");
      } else if (request.contains(" /file ")) {
        connection.Send(
            "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n");
      } else {
        connection.Send(Ok("here"));
      }
    }
  });
  auto plain = Client().Do(ctx_, Get("/old"));
  ASSERT_OK(plain);
  EXPECT_EQ(plain->status, 302);
  EXPECT_EQ(plain->body, "move");
  auto& following = Client({.follow_redirects = true});
  auto followed = following.Do(ctx_, Get("/old"));
  ASSERT_OK(followed);
  EXPECT_EQ(followed->status, 200);
  EXPECT_EQ(followed->body, "here");
  EXPECT_CODE(following.Do(ctx_, Get("/loop")), Code::kInvalid);
  EXPECT_CODE(following.Do(ctx_, Get("/file")), Code::kInvalid);
  auto post = Get("/old");
  post.method = "POST";
  auto not_followed = following.Do(ctx_, post);
  ASSERT_OK(not_followed);
  EXPECT_EQ(not_followed->status, 302);
}

TEST_F(HttpClientTest, BadUrlsAreInvalidAndQuotedWithoutPassword) {
  auto& client = Client();
  for (const char* url : {"", "host/x", "ftp://h/", "file:///etc/passwd", "http://",
                          "http://h:99999/", "http://h/a b"}) {
    EXPECT_CODE(client.Do(ctx_, {.url = url}), Code::kInvalid) << url;
  }
  auto refused = client.Do(ctx_, {.url = "http://user:hunter2@127.0.0.1:1/x?token=abc"});
  ASSERT_CODE(refused, Code::kUnavailable);
  EXPECT_THAT(refused.error().message(), Not(HasSubstr("hunter2")));
  EXPECT_THAT(refused.error().message(), Not(HasSubstr("abc")));
  EXPECT_THAT(refused.error().message(), HasSubstr("GET http://user:***@127.0.0.1:1/x"));
  EXPECT_THAT(refused.error().message(), HasSubstr("sent: no"));
  EXPECT_FALSE(refused.error().maybe_done());
}

TEST_F(HttpClientTest, ProxiesOfTheEnvironmentAreNotForLoopback) {
  Serve(EchoRaw);
  ::setenv("http_proxy", "http://127.0.0.1:1/", 1);
  auto response = Client().Do(ctx_, Get());
  ::unsetenv("http_proxy");
  EXPECT_OK(response);
}

TEST_F(HttpClientTest, StartedRequestsCompleteOnTheirOwn) {
  Serve(EchoRaw);
  auto& client = Client();
  constexpr int kRequests = 100;
  std::latch done(kRequests + 2);
  for (int i = 0; i < kRequests; ++i) {
    client.Start(ctx_, Get(fmt::format("/{}", i)), [&, i](Result<HttpResponse> response) {
      EXPECT_OK(response);
      EXPECT_THAT(response->body, StartsWith(fmt::format("GET /{} ", i)));
      done.count_down();
    });
  }
  client.Start(ctx_, {.url = "nonsense"}, [&](Result<HttpResponse> response) {
    EXPECT_CODE(response, Code::kInvalid);
    done.count_down();
  });
  auto post = Get();
  post.method = "POST";
  post.body = "b";
  client.Start(ctx_, post, [&](Result<HttpResponse> response) {
    EXPECT_OK(response);
    done.count_down();
  });
  done.wait();
  EXPECT_LE(server_->connections(), 64);
}

TEST_F(HttpClientTest, StartedRequestsFillTheCallersBuffer) {
  Serve([](RawConnection& connection, int) {
    while (!connection.ReadRequest().empty()) connection.Send(Ok("0123456789"));
  });
  auto& client = Client();
  std::array<std::byte, 10> buffer{}, small{};
  std::size_t received = 0, too_many = 0;
  std::latch done(2);
  client.StartInto(ctx_, Get(), buffer, &received, [&](Result<HttpResponse> response) {
    EXPECT_OK(response);
    EXPECT_EQ(response->body, "");
    done.count_down();
  });
  client.StartInto(ctx_, Get(), std::span(small).first(9), &too_many,
                   [&](Result<HttpResponse> response) {
                     EXPECT_CODE(response, Code::kInvalid);
                     done.count_down();
                   });
  done.wait();
  EXPECT_EQ(received, 10u);
  EXPECT_EQ(std::string_view(reinterpret_cast<char*>(buffer.data()), received), "0123456789");
}

TEST_F(HttpClientTest, StartedRequestsObeyDeadlineStopAndStall) {
  Serve([](RawConnection& connection, int) { connection.WaitForClose(); });
  auto& client = Client({.stall_timeout = milliseconds(80)});
  std::latch done(3);
  const auto expect = [&](Code code) {
    return [&, code](const Result<HttpResponse>& response) {
      EXPECT_CODE(response, code);
      done.count_down();
    };
  };
  client.Start(ctx_.WithTimeout(milliseconds(20)), Get(), expect(Code::kDeadline));
  client.Start(ctx_, Get(), expect(Code::kUnavailable));
  std::stop_source stop;
  client.Start(ctx_.WithStop(stop.get_token()), Get(), expect(Code::kCancelled));
  stop.request_stop();
  done.wait();
}

TEST_F(HttpClientTest, AStartedRequestOfAStoppedCallerIsNotSent) {
  std::atomic<int> requests = 0;
  Serve([&](RawConnection& connection, int) {
    if (!connection.ReadRequest().empty()) ++requests;
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  auto& client = Client();
  std::stop_source stop;
  stop.request_stop();
  std::latch done(1);
  client.Start(ctx_.WithStop(stop.get_token()), Get(), [&](Result<HttpResponse> response) {
    EXPECT_CODE(response, Code::kCancelled);
    done.count_down();
  });
  done.wait();
  EXPECT_EQ(requests, 0);
}

TEST_F(HttpClientTest, AStartedRequestWithoutDescriptorsFailsAndTheNextOneWorks) {
  Serve(EchoRaw);
  auto& client = Client();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::latch failed(1), done(1);
  client.Start(ctx_, Get(), [&](const Result<HttpResponse>& response) {
    EXPECT_FALSE(response.has_value());
    failed.count_down();
  });
  failed.wait();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  client.Start(ctx_, Get(), [&](const Result<HttpResponse>& response) {
    EXPECT_OK(response);
    done.count_down();
  });
  done.wait();
}

TEST_F(HttpClientTest, DestroyingTheClientEndsWhatIsInFlight) {
  std::latch arrived(3);
  Serve([&](RawConnection& connection, int) {
    connection.ReadRequest();
    arrived.count_down();
    connection.WaitForClose();
  });
  auto& client = Client();
  std::atomic<int> completed = 0;
  client.Start(ctx_, Get(), [&](Result<HttpResponse> response) {
    EXPECT_CODE(response, Code::kCancelled);
    ++completed;
  });
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      EXPECT_CODE(client.Do(ctx_, Get()), Code::kCancelled);
      ++completed;
    });
  }
  arrived.wait();
  client_.reset();
  threads.clear();
  EXPECT_EQ(completed, 3);
}

}  // namespace
}  // namespace paddleop::net
