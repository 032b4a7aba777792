#include "redis/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <latch>
#include <thread>

#include "base/testing/matchers.h"
#include "redis/testing/fake_server.h"

namespace paddleop::redis {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeClient;
using testing::FakeServer;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Soon;

// Answers every command with the same bytes.
FakeServer::Serve Always(std::string reply) {
  return [reply = std::move(reply)](FakeClient& client, int) {
    while (client.Read()) client.Send(reply);
  };
}

TEST(ConnectionTest, LogsInChoosesTheDatabaseAndSaysItsName) {
  std::vector<std::vector<std::string>> seen;
  {
    FakeServer server([&](FakeClient& client, int) {
      while (auto command = client.Read()) {
        seen.push_back(*command);
        client.Send("+OK\r\n");
      }
    });
    auto options = server.options();
    options.user = "alice";
    options.password = Secret("pw");
    options.database = 3;
    options.client_name = "me";
    ASSERT_OK(Connection::Open(Soon(), options));
  }
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_THAT(seen[0], ElementsAre("AUTH", "alice", "pw"));
  EXPECT_THAT(seen[1], ElementsAre("SELECT", "3"));
  EXPECT_THAT(seen[2], ElementsAre("CLIENT", "SETNAME", "me"));
}

TEST(ConnectionTest, ARefusedLoginKeepsThePasswordToItself) {
  FakeServer server(Always("-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n"));
  auto options = server.options();
  options.password = Secret("hunter2");
  const auto connection = Connection::Open(Soon(), options);
  ASSERT_FALSE(connection);
  EXPECT_THAT(connection.error().message(), Not(HasSubstr("hunter2")));
  EXPECT_THAT(connection.error().message(), HasSubstr("log in"));
  EXPECT_THAT(connection.error().message(), HasSubstr(options.Address()));
}

TEST(ConnectionTest, ARefusedNameIsNoReasonToFailButAMissingPasswordIs) {
  {
    FakeServer server(Always("-NOPERM this user may not\r\n"));
    auto options = server.options();
    options.client_name = "me";
    EXPECT_OK(Connection::Open(Soon(), options));
  }
  {
    FakeServer server(Always("-NOAUTH Authentication required.\r\n"));
    auto options = server.options();
    options.client_name = "me";
    EXPECT_CODE(Connection::Open(Soon(), options), Code::kPermission);
  }
}

TEST(ConnectionTest, AServerThatIsFullSaysSoAndCloses) {
  FakeServer server([](FakeClient& client, int) {
    client.Read();
    client.Send("-ERR max number of clients reached\r\n");
  });
  auto options = server.options();
  options.password = Secret("pw");
  options.client_name = "me";
  const auto connection = Connection::Open(Soon(), options);
  ASSERT_CODE(connection, Code::kUnavailable);
  EXPECT_THAT(connection.error().message(), HasSubstr("maxclients"));
}

TEST(ConnectionTest, SilenceDuringLoginEndsInTime) {
  FakeServer server([](FakeClient& client, int) { client.Stall(); });
  auto options = server.options();
  options.client_name = "me";
  options.connect_timeout = 50ms;
  const auto connection = Connection::Open(Soon(), options);
  ASSERT_CODE(connection, Code::kUnavailable);
  EXPECT_THAT(connection.error().message(), HasSubstr("50 ms"));
}

class OneConnectionTest : public ::testing::Test {
 protected:
  // Connects to a server that behaves like this.
  void Serve(FakeServer::Serve serve, std::chrono::milliseconds read_timeout = 20s) {
    server_ = std::make_unique<FakeServer>(std::move(serve));
    auto options = server_->options();
    options.read_timeout = read_timeout;
    options.limits.max_string_bytes = 1 << 20;
    auto connection = Connection::Open(Soon(), options);
    ASSERT_OK(connection);
    connection_ = *std::move(connection);
  }

  void ExpectDead() {
    EXPECT_FALSE(connection_->usable());
    EXPECT_TRUE(connection_->Stale());
    const auto reply = connection_->Call(Soon(), {"PING"});
    ASSERT_CODE(reply, Code::kUnavailable);
    EXPECT_FALSE(reply.error().maybe_done());
  }

  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(OneConnectionTest, CallsAndKeepsOrder) {
  Serve([](FakeClient& client, int) {
    while (auto command = client.Read()) {
      client.Send("$" + std::to_string((*command)[1].size()) + "\r\n" + (*command)[1] + "\r\n");
    }
  });
  auto reply = connection_->Call(Soon(), {"ECHO", "one"});
  ASSERT_OK(reply);
  EXPECT_EQ(reply->text(), "one");

  Commands commands;
  for (int i = 0; i < 1000; ++i) commands.Add({"ECHO", i});
  auto replies = connection_->Run(Soon(), commands);
  ASSERT_OK(replies);
  ASSERT_EQ(replies->size(), 1000U);
  for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ((*replies)[i].text(), std::to_string(i));

  // Long enough for several chunks.
  const auto text = [](int i) { return fmt::format("{:0>200}", i); };
  int next = 0;
  int got = 0;
  const auto source = [&](Commands& out) {
    out.Add({"ECHO", text(next)});
    return ++next < 2'000;
  };
  const auto sink = [&](Reply r) -> Result<void> {
    EXPECT_EQ(r.text(), text(got++));
    EXPECT_LT(next - got, 1'000);
    return {};
  };
  ASSERT_OK(connection_->RunStreaming(Soon(), source, sink));
  EXPECT_EQ(got, 2'000);
  EXPECT_FALSE(connection_->Stale());
}

TEST_F(OneConnectionTest, AnErrorReplyLeavesItAlive) {
  Serve(Always("-WRONGTYPE no\r\n"));
  auto reply = connection_->Call(Soon(), {"GET", "k"});
  ASSERT_CODE(reply, Code::kInvalid);
  EXPECT_FALSE(reply.error().maybe_done());
  EXPECT_TRUE(connection_->usable());
  Commands commands;
  commands.Add({"GET", "k"});
  auto replies = connection_->Run(Soon(), commands);
  ASSERT_OK(replies);
  EXPECT_TRUE(replies->front().is_error());
}

TEST_F(OneConnectionTest, AReplicaIsNotUsedAgain) {
  Serve(Always("-READONLY no\r\n"));
  EXPECT_CODE(connection_->Call(Soon(), {"SET", "k", "v"}), Code::kUnavailable);
  EXPECT_FALSE(connection_->usable());
}

TEST_F(OneConnectionTest, ClosingBeforeTheReplyMeansMaybeDone) {
  Serve([](FakeClient& client, int) { client.Read(); });
  const auto reply = connection_->Call(Soon(), {"INCR", "k"});
  ASSERT_CODE(reply, Code::kUnavailable);
  EXPECT_TRUE(reply.error().maybe_done());
  EXPECT_THAT(reply.error().message(), HasSubstr(connection_->address()));
  ExpectDead();
}

TEST_F(OneConnectionTest, ClosingInTheMiddleOfAReply) {
  Serve([](FakeClient& client, int) {
    client.Read();
    client.Send("$100\r\nonly this");
  });
  const auto reply = connection_->Call(Soon(), {"GET", "k"});
  ASSERT_CODE(reply, Code::kUnavailable);
  EXPECT_TRUE(reply.error().maybe_done());
  ExpectDead();
}

TEST_F(OneConnectionTest, Reset) {
  Serve([](FakeClient& client, int) {
    client.Read();
    client.ResetOnClose();
  });
  const auto reply = connection_->Call(Soon(), {"INCR", "k"});
  ASSERT_CODE(reply, Code::kUnavailable);
  EXPECT_TRUE(reply.error().maybe_done());
  ExpectDead();
}

TEST_F(OneConnectionTest, Garbage) {
  Serve(Always("HTTP/1.1 400 Bad Request\r\n\r\n"));
  const auto reply = connection_->Call(Soon(), {"GET", "k"});
  ASSERT_CODE(reply, Code::kCorrupt);
  EXPECT_TRUE(reply.error().maybe_done());
  ExpectDead();
}

TEST_F(OneConnectionTest, AReplyOverTheLimit) {
  Serve(Always("$1048577\r\n"));
  EXPECT_CODE(connection_->Call(Soon(), {"GET", "k"}), Code::kInvalid);
  ExpectDead();
}

TEST_F(OneConnectionTest, ASilentServerIsUnavailableAfterTheReadTimeout) {
  Serve([](FakeClient& client, int) { client.Stall(); }, 50ms);
  const auto reply = connection_->Call(Soon(), {"GET", "k"});
  ASSERT_CODE(reply, Code::kUnavailable);
  EXPECT_TRUE(reply.error().maybe_done());
  EXPECT_THAT(reply.error().message(), HasSubstr("50 ms"));
  ExpectDead();
}

TEST_F(OneConnectionTest, TheCallersDeadlineCounts) {
  Serve([](FakeClient& client, int) { client.Stall(); });
  const auto reply = connection_->Call(Context::Background().WithTimeout(50ms), {"GET", "k"});
  ASSERT_CODE(reply, Code::kDeadline);
  EXPECT_TRUE(reply.error().maybe_done());
  ExpectDead();
}

TEST_F(OneConnectionTest, ATrickleDoesNotOutliveTheDeadline) {
  Serve([](FakeClient& client, int) {
    client.Read();
    client.Send("$1000000\r\n");
    for (;;) {
      client.Send("x");
      std::this_thread::sleep_for(5ms);
      char byte = 0;
      if (::recv(client.fd(), &byte, 1, MSG_DONTWAIT) == 0) return;
    }
  });
  EXPECT_CODE(connection_->Call(Context::Background().WithTimeout(60ms), {"GET", "k"}),
              Code::kDeadline);
}

TEST_F(OneConnectionTest, ACallerThatHasStoppedSendsNothing) {
  std::latch stalled(1);
  Serve([&](FakeClient& client, int) {
    while (client.Read()) {
      stalled.count_down();
    }
  });
  std::stop_source stop;
  stop.request_stop();
  const auto before = connection_->Call(Soon().WithStop(stop.get_token()), {"INCR", "k"});
  ASSERT_CODE(before, Code::kCancelled);
  EXPECT_FALSE(before.error().maybe_done());
  EXPECT_TRUE(connection_->usable());

  std::stop_source later;
  std::jthread stopper([&] {
    stalled.wait();
    later.request_stop();
  });
  const auto during = connection_->Call(Soon().WithStop(later.get_token()), {"INCR", "k"});
  ASSERT_CODE(during, Code::kCancelled);
  EXPECT_TRUE(during.error().maybe_done());
  ExpectDead();
}

TEST_F(OneConnectionTest, ACommandThatWasNotSentWholeIsNotDone) {
  // Takes a little of a large value and closes.
  Serve([](FakeClient& client, int) {
    char bytes[1000];
    ::recv(client.fd(), bytes, sizeof(bytes), 0);
    client.ResetOnClose();
  });
  const auto reply = connection_->Call(Soon(), {"SET", "k", std::string(64 << 20, 'x')});
  ASSERT_CODE(reply, Code::kUnavailable);
  EXPECT_FALSE(reply.error().maybe_done());
  ExpectDead();
}

TEST_F(OneConnectionTest, AServerThatTakesNothingEndsInTime) {
  std::latch over(1);
  server_ = std::make_unique<FakeServer>([&](FakeClient&, int) { over.wait(); });
  auto options = server_->options();
  options.write_timeout = 50ms;
  auto connection = Connection::Open(Soon(), options);
  ASSERT_OK(connection);
  const auto reply = (*connection)->Call(Soon(), {"SET", "k", std::string(64 << 20, 'x')});
  over.count_down();
  ASSERT_CODE(reply, Code::kUnavailable);
  EXPECT_FALSE(reply.error().maybe_done());
}

TEST_F(OneConnectionTest, ABrokenBatchMayBeDoneUnlessItsLastCommandWasNotSent) {
  Commands commands;
  for (int i = 0; i < 1000; ++i) commands.Add({"SET", i, std::string(1000, 'x')});
  const auto answer_a_little = [](FakeClient& client, int) {
    for (int i = 0; i < 10; ++i) {
      client.Read();
      client.Send("+OK\r\n");
    }
  };
  Serve(answer_a_little);
  const auto each = connection_->Run(Soon(), commands);
  ASSERT_CODE(each, Code::kUnavailable);
  EXPECT_TRUE(each.error().maybe_done());

  Serve(answer_a_little);
  const auto last = connection_->Run(Soon(), commands, Effect::kLastCommand);
  ASSERT_CODE(last, Code::kUnavailable);
  EXPECT_FALSE(last.error().maybe_done());
}

TEST_F(OneConnectionTest, ASinkThatGivesUpEndsTheConnectionIfRepliesAreLeft) {
  Serve(Always("+OK\r\n"));
  int sent = 0;
  const auto source = [&](Commands& out) {
    out.Add({"PING"});
    return ++sent < 100;
  };
  int taken = 0;
  const auto sink = [&](Reply) -> Result<void> {
    if (++taken == 10) return Fail(Code::kNoSpace, "enough");
    return {};
  };
  EXPECT_CODE(connection_->RunStreaming(Soon(), source, sink), Code::kNoSpace);
  ExpectDead();
}

TEST_F(OneConnectionTest, UnsolicitedBytesMakeItStale) {
  std::latch sent(1);
  Serve([&](FakeClient& client, int) {
    client.Read();
    client.Send("+OK\r\n+surprise\r\n");
    sent.count_down();
    client.Stall();
  });
  ASSERT_OK(connection_->Call(Soon(), {"PING"}));
  sent.wait();
  EXPECT_TRUE(connection_->Stale());
}

TEST_F(OneConnectionTest, UnwatchGoesWithTheNextCommand) {
  std::vector<std::string> seen;
  Serve([&](FakeClient& client, int) {
    while (auto command = client.Read()) {
      seen.push_back(command->front());
      client.Send(command->front() == "UNWATCH" ? "+OK\r\n" : ":1\r\n");
    }
  });
  connection_->UnwatchLater();
  auto reply = connection_->Call(Soon(), {"INCR", "k"});
  ASSERT_OK(reply);
  EXPECT_EQ(*reply->ToInteger(), 1);
  EXPECT_FALSE(connection_->Stale());
  ASSERT_OK(connection_->Call(Soon(), {"INCR", "k"}));
  connection_.reset();
  server_.reset();
  EXPECT_THAT(seen, ElementsAre("UNWATCH", "INCR", "INCR"));
}

TEST_F(OneConnectionTest, CountsWhatItDoes) {
  MetricsRegistry registry;
  const Metrics metrics(registry);
  FakeServer server([](FakeClient& client, int) {
    client.Read();
    client.Send("+OK\r\n");
    client.Read();
    client.Send("-ERR no\r\n");
    client.Read();
  });
  auto connection = Connection::Open(Soon(), server.options(), &metrics);
  ASSERT_OK(connection);
  EXPECT_EQ(metrics.connections.Value(), 1);
  EXPECT_OK((*connection)->Call(Soon(), {"PING"}));
  EXPECT_FALSE((*connection)->Call(Soon(), {"PING"}));
  EXPECT_FALSE((*connection)->Call(Soon(), {"PING"}));
  connection->reset();
  EXPECT_EQ(metrics.commands.Value(), 3);
  EXPECT_EQ(metrics.error_replies.Value(), 1);
  EXPECT_EQ(metrics.io_errors.Value(), 1);
  EXPECT_EQ(metrics.in_flight.Value(), 0);
  EXPECT_EQ(metrics.connections.Value(), 0);
}

}  // namespace
}  // namespace paddleop::redis
