// A server that refuses, stalls, lies or goes away: tried again within the deadline, then a clear
// error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/bytes.h"
#include "base/testing/matchers.h"
#include "integration/object/minio.h"
#include "net/testing/raw_server.h"
#include "volume/object/testing/object_store_contract.h"

namespace paddleop::volume::object::testing {
namespace {

using net::testing::RawConnection;
using net::testing::RawServer;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Reply(std::string_view status, std::string_view body, std::string_view headers = "") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(), headers,
                     body);
}
std::string Refusal(std::string_view status, std::string_view code, std::string_view headers = "") {
  return Reply(status, fmt::format("<Error><Code>{}</Code><Message>words</Message></Error>", code),
               headers);
}

class S3Faults : public ::testing::Test {
 protected:
  void Serve(RawServer::Script script, int max_attempts = 5) {
    auto server = RawServer::Start(std::move(script));
    ASSERT_OK(server);
    server_ = *std::move(server);
    auto store = OpenStore({.storage = "minio",
                            .bucket = server_->Url("/bkt"),
                            .access_key = "AK",
                            .secret_key = Secret("hidden")},
                           {.retry = {.backoff = {.initial = milliseconds(5),
                                                  .maximum = milliseconds(20),
                                                  .max_attempts = max_attempts}},
                            .stall_timeout = milliseconds(300)});
    ASSERT_OK(store);
    store_ = *std::move(store);
  }
  // Both ways to read, which must end alike.
  Result<std::string> Read(std::string_view key) { return GetString(*store_, ctx_, key, 100); }
  Result<std::string> ReadAsync(std::string_view key) {
    std::string buffer(100, '\0');
    Countdown done(1);
    Result<GetResult> result = GetResult{};
    store_->StartGet(ctx_, key, {}, std::as_writable_bytes(std::span(buffer)),
                     [&](Result<GetResult> got) {
                       result = std::move(got);
                       done.Down();
                     });
    EXPECT_TRUE(done.Wait());
    if (!result) return std::unexpected(result.error());
    return buffer.substr(0, result->size);
  }

  const Context ctx_ = Context::Background().WithTimeout(seconds(60));
  std::unique_ptr<RawServer> server_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(S3Faults, AStormOfRefusalsPasses) {
  std::atomic<int> requests = 0;
  Serve([&](RawConnection& connection, int) {
    while (!connection.ReadRequest().empty()) {
      connection.Send(++requests % 4 != 0 ? Refusal("503 Slow Down", "SlowDown")
                                          : Reply("200 OK", "content"));
    }
  });
  for (int i = 0; i < 5; ++i) {
    auto read = i % 2 == 0 ? Read("k") : ReadAsync("k");
    ASSERT_OK(read);
    EXPECT_EQ(*read, "content");
  }
  EXPECT_EQ(requests, 20);
}

TEST_F(S3Faults, AStormThatDoesNotPassIsReported) {
  Serve([](RawConnection& connection, int) {
    while (!connection.ReadRequest().empty()) connection.Send(Refusal("503 Slow Down", "SlowDown"));
  });
  for (const auto& read : {Read("some/key"), ReadAsync("some/key")}) {
    ASSERT_CODE(read, Code::kUnavailable);
    EXPECT_THAT(read.error().message(), HasSubstr("SlowDown"));
    EXPECT_THAT(read.error().message(), HasSubstr("/bkt/some/key"));
    EXPECT_THAT(read.error().message(), Not(HasSubstr("hidden")));
  }
}

TEST_F(S3Faults, RetryAfterIsRespected) {
  std::atomic<int> requests = 0;
  Serve([&](RawConnection& connection, int) {
    while (!connection.ReadRequest().empty()) {
      connection.Send(++requests == 1 ? Refusal("503 Slow Down", "SlowDown", "Retry-After: 1\r\n")
                                      : Reply("200 OK", "content"));
    }
  });
  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK(Read("k"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(950));
}

TEST_F(S3Faults, ABodyThatEndsEarlyIsReadAgain) {
  Serve([](RawConnection& connection, int index) {
    while (!connection.ReadRequest().empty()) {
      if (index % 2 == 0) {
        connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nXXX");
        return;
      }
      connection.Send(Reply("200 OK", "content"));
      return;
    }
  });
  for (int i = 0; i < 2; ++i) {
    auto read = i == 0 ? Read("k") : ReadAsync("k");
    ASSERT_OK(read);
    EXPECT_EQ(*read, "content");
  }
}

TEST_F(S3Faults, AStallEndsAndIsTriedElsewhere) {
  Serve([](RawConnection& connection, int index) {
    if (connection.ReadRequest().empty()) return;
    if (index % 2 == 0) {
      connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncon");
      connection.WaitForClose();
      return;
    }
    connection.Send(Reply("200 OK", "content"));
  });
  for (int i = 0; i < 2; ++i) {
    const auto start = std::chrono::steady_clock::now();
    auto read = i == 0 ? Read("k") : ReadAsync("k");
    ASSERT_OK(read);
    EXPECT_EQ(*read, "content");
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
  }
}

TEST_F(S3Faults, AResetAfterAnUploadIsRepeated) {
  std::atomic<int> bodies = 0;
  Serve([&](RawConnection& connection, int index) {
    const std::string request = connection.ReadRequest();
    if (request.ends_with("\r\n\r\nthe whole body")) ++bodies;
    if (index == 0) return connection.Reset();
    connection.Send(Reply("200 OK", ""));
  });
  EXPECT_OK(PutString(*store_, ctx_, "k", "the whole body"));
  EXPECT_EQ(bodies, 2);
}

TEST_F(S3Faults, ADeadlineEndsEverything) {
  Serve(
      [](RawConnection& connection, int) {
        while (!connection.ReadRequest().empty())
          connection.Send(Refusal("500 Oops", "InternalError"));
      },
      1'000'000);
  const auto start = std::chrono::steady_clock::now();
  const Context soon = ctx_.WithTimeout(milliseconds(300));
  const auto read = GetString(*store_, soon, "k", 10);
  ASSERT_CODE(read, Code::kUnavailable);
  EXPECT_THAT(read.error().message(), HasSubstr("InternalError"));
  EXPECT_FALSE(PutString(*store_, soon, "k", "x"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
}

TEST_F(S3Faults, NonsenseIsNoData) {
  Serve(
      [](RawConnection& connection, int) {
        connection.ReadRequest();
        connection.Send("SSH-2.0-OpenSSH_9.2\r\n\r\n");
      },
      1);
  EXPECT_FALSE(Read("k"));
  EXPECT_FALSE(ReadAsync("k"));
}

TEST_F(S3Faults, ClosingTheStoreCompletesWhatIsInFlight) {
  Serve([](RawConnection& connection, int) {
    connection.ReadRequest();
    connection.WaitForClose();
  });
  constexpr int kCount = 50;
  Countdown done(kCount);
  std::atomic<int> cancelled = 0;
  std::vector<std::string> buffers(kCount, std::string(10, '\0'));
  for (auto& buffer : buffers) {
    store_->StartGet(ctx_, "k", {}, std::as_writable_bytes(std::span(buffer)),
                     [&](Result<GetResult> got) {
                       if (!got && got.error().code() == Code::kCancelled) ++cancelled;
                       done.Down();
                     });
  }
  store_.reset();
  EXPECT_TRUE(done.Wait(seconds(0)));
  EXPECT_GT(cancelled, 0);
}

// The one server of this program goes away and comes back; last, so that it disturbs nobody.
TEST(S3Outage, OperationsSurviveARestartOfTheServer) {
  auto store = NewBucket({.retry = {.backoff = {.initial = milliseconds(50),
                                                .maximum = milliseconds(500),
                                                .max_attempts = 0},
                                    .max_retry_after = seconds(1)}});
  ASSERT_NE(store, nullptr);
  const Context ctx = Context::Background().WithTimeout(seconds(60));
  ASSERT_OK(PutString(*store, ctx, "k", "content"));
  ASSERT_OK(Minio().Command("kill minio"));
  EXPECT_CODE(GetString(*store, Context::Background().WithTimeout(seconds(1)), "k", 100),
              Code::kUnavailable);

  Countdown done(20);
  for (int i = 0; i < 20; ++i) {
    store->StartPut(ctx, fmt::format("k{}", i), AsBytes("content"), {}, [&](Result<void> put) {
      EXPECT_OK(put);
      done.Down();
    });
  }
  ASSERT_OK(Minio().Command("start minio"));
  ASSERT_TRUE(done.Wait());
  auto read = GetString(*store, ctx, "k", 100);
  ASSERT_OK(read);
  EXPECT_EQ(*read, "content");
}

}  // namespace
}  // namespace paddleop::volume::object::testing
