// A real redis-server that refuses, stops, dies and comes back.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "server.h"

namespace paddleop::redis {
namespace {

using ::testing::HasSubstr;

TEST(RedisFaults, ErrorRepliesOfARealServer) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto connection = server->Connect();
  ASSERT_TRUE(connection);
  ASSERT_OK(connection->Call(Soon(), {"SET", "text", "x"}));
  EXPECT_CODE(connection->Call(Soon(), {"LPUSH", "text", "x"}), Code::kInvalid);
  EXPECT_CODE(connection->Call(Soon(), {"NOSUCHCOMMAND"}), Code::kNotSupported);
  EXPECT_CODE(connection->Call(Soon(), {"EVALSHA", std::string(40, '0'), 0}), Code::kNotFound);

  ASSERT_OK(connection->Call(Soon(), {"CONFIG", "SET", "maxmemory", 1}));
  EXPECT_CODE(connection->Call(Soon(), {"SET", "k", "v"}), Code::kNoSpace);
  ASSERT_OK(connection->Call(Soon(), {"CONFIG", "SET", "maxmemory", 0}));

  ASSERT_OK(connection->Call(Soon(), {"CONFIG", "SET", "replica-serve-stale-data", "no"}));
  ASSERT_OK(connection->Call(Soon(), {"REPLICAOF", "127.0.0.1", 1}));
  auto reader = server->Connect();
  const auto down = reader->Call(Soon(), {"GET", "text"});
  ASSERT_CODE(down, Code::kUnavailable);
  EXPECT_THAT(down.error().message(), HasSubstr("MASTERDOWN"));
  ASSERT_OK(connection->Call(Soon(), {"CONFIG", "SET", "replica-serve-stale-data", "yes"}));
  auto writer = server->Connect();
  const auto read_only = writer->Call(Soon(), {"SET", "k", "v"});
  ASSERT_CODE(read_only, Code::kUnavailable);
  EXPECT_THAT(read_only.error().message(), HasSubstr("READONLY"));
  EXPECT_FALSE(writer->usable());
}

TEST(RedisFaults, ABusyServerIsUnavailable) {
  auto server = Server::Start({"--config", "busy-reply-threshold 20"});
  ASSERT_OK(server);
  auto runner = server->Connect();
  auto other = server->Connect();
  ASSERT_TRUE(runner && other);
  std::jthread script([&] {
    // Killed below.
    EXPECT_FALSE(runner->Call(Soon(), {"EVAL", "while true do end", 0}));
  });
  std::optional<Status> busy;
  EXPECT_TRUE(paddleop::testing::WaitFor([&] {
    const auto reply = other->Call(Soon(), {"GET", "k"});
    if (!reply) busy = reply.error();
    return !reply;
  }));
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->code(), Code::kUnavailable);
  EXPECT_THAT(busy->message(), HasSubstr("BUSY"));
  ASSERT_OK(other->Call(Soon(), {"SCRIPT", "KILL"}));
}

TEST(RedisFaults, AClusterIsRefusedClearly) {
  auto server = Server::Start({"--config", "cluster-enabled yes"});
  ASSERT_OK(server);
  auto pool = server->MakePool();
  const auto reply = pool->Call(Soon(), {"SET", "k", "v"});
  ASSERT_CODE(reply, Code::kNotSupported);
  EXPECT_THAT(reply.error().message(), HasSubstr("Cluster is not supported"));
}

TEST(RedisFaults, TooManyClients) {
  auto server = Server::Start({"--config", "maxclients 4"});
  ASSERT_OK(server);
  std::vector<std::unique_ptr<Connection>> held;
  // The peer's own look at the server may not be over yet.
  EXPECT_TRUE(paddleop::testing::WaitFor([&] {
    auto connection = Connection::Open(Soon(), server->options().connection);
    if (connection) held.push_back(*std::move(connection));
    return held.size() == 4;
  }));
  EXPECT_CODE(Connection::Open(Soon(), server->options().connection), Code::kUnavailable);
  // A pool waits until there is room.
  auto pool = server->MakePool();
  std::jthread leaver([&] {
    paddleop::testing::SleepBriefly(50ms);
    held.clear();
  });
  EXPECT_OK(pool->Call(Soon(), {"PING"}));
}

TEST(RedisFaults, APausedServerMeansDeadlineAndRecovery) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto pool = server->MakePool();
  ASSERT_OK(pool->Call(Soon(), {"SET", "k", 1}));
  server->Command("pause redis");

  const auto start = std::chrono::steady_clock::now();
  const auto reply = pool->Call(Context::Background().WithTimeout(1s), {"INCR", "k"});
  ASSERT_CODE(reply, Code::kDeadline);
  EXPECT_TRUE(reply.error().maybe_done());
  // The kernel still accepts connections; the login goes unanswered.
  EXPECT_CODE(pool->Call(Context::Background().WithTimeout(200ms), {"INCR", "k"}), Code::kDeadline);
  std::stop_source stop;
  std::jthread stopper([&] {
    paddleop::testing::SleepBriefly(50ms);
    stop.request_stop();
  });
  EXPECT_CODE(pool->Call(Soon().WithStop(stop.get_token()), {"INCR", "k"}), Code::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 40s);

  server->Command("resume redis");
  auto value = pool->Call(Soon(), {"GET", "k"}, Repeat::kAlways);
  ASSERT_OK(value);
  EXPECT_EQ(value->text(), "2");  // the first INCR had arrived: "maybe done" was right
}

TEST(RedisFaults, ASilentServerIsNoticedWithoutACallersDeadline) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto options = server->options().connection;
  options.read_timeout = 100ms;
  auto connection = Connection::Open(Soon(), options);
  ASSERT_OK(connection);
  server->Command("pause redis");
  EXPECT_CODE((*connection)->Call(Context::Background(), {"GET", "k"}), Code::kUnavailable);
  server->Command("resume redis");
}

// Counts with INCR while the server is killed and started again and again. What was acknowledged
// must be there, and what was neither acknowledged nor "maybe done" must not.
TEST(RedisFaults, KillsLoseNothingAcknowledgedAndRepeatNothingExecuted) {
  auto server = Server::Start({"--appendonly", "--config", "appendfsync always"});
  ASSERT_OK(server);
  auto pool = server->MakePool();
  std::atomic<bool> over = false;
  std::atomic<std::int64_t> acknowledged = 0;
  std::atomic<std::int64_t> uncertain = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (!over) {
          const auto reply = pool->Call(Soon(), {"INCR", "counter"});
          if (reply) {
            ++acknowledged;
          } else {
            EXPECT_CODE(reply, Code::kUnavailable);
            uncertain += reply.error().maybe_done() ? 1 : 0;
          }
        }
      });
    }
    for (int round = 0; round < 3; ++round) {
      const auto before = acknowledged.load();
      EXPECT_TRUE(paddleop::testing::WaitFor([&] { return acknowledged > before + 50; }));
      server->Command("kill redis");
      server->Command("start redis");
    }
    const auto before = acknowledged.load();
    EXPECT_TRUE(paddleop::testing::WaitFor([&] { return acknowledged > before + 50; }));
    over = true;
  }
  auto counter = pool->Call(Soon(), {"GET", "counter"}, Repeat::kAlways);
  ASSERT_OK(counter);
  EXPECT_GE(*counter->ToInteger(), acknowledged);
  EXPECT_LE(*counter->ToInteger(), acknowledged + uncertain);
}

TEST(RedisFaults, AnAbsentServerFailsInTimeAndByName) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto options = server->options();
  options.acquire_timeout = 300ms;
  options.retry.max_attempts = 1;
  options.reconnect.maximum = 50ms;
  auto pool = Server::MakePool(options);
  ASSERT_OK(pool->Call(Soon(), {"PING"}));
  server->Command("stop redis");
  const auto reply = pool->Call(Soon(), {"PING"});
  ASSERT_CODE(reply, Code::kUnavailable);
  EXPECT_FALSE(reply.error().maybe_done());
  EXPECT_THAT(reply.error().message(), HasSubstr(options.connection.Address()));
  server->Command("start redis");
  // One attempt gives a connection 300 ms, which a busy machine may not keep.
  EXPECT_TRUE(paddleop::testing::WaitFor([&] { return pool->Call(Soon(), {"PING"}).has_value(); }));
}

}  // namespace
}  // namespace paddleop::redis
