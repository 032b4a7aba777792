#include "redis/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "base/testing/matchers.h"
#include "redis/testing/fake_server.h"

namespace paddleop::redis {
namespace {

using namespace std::chrono_literals;
using testing::FakeClient;
using testing::FakeServer;
using ::testing::HasSubstr;
using testing::Soon;

void AnswerOk(FakeClient& client, int) {
  while (client.Read()) client.Send("+OK\r\n");
}

std::unique_ptr<Pool> MakePool(const FakeServer& server, std::size_t connections = 2,
                               std::chrono::milliseconds acquire = 10s) {
  PoolOptions options;
  options.connection = server.options();
  options.max_connections = connections;
  options.acquire_timeout = acquire;
  options.reconnect = {.initial = 1ms, .maximum = 10ms};
  options.retry = {.initial = 1ms, .maximum = 5ms, .max_attempts = 3};
  auto pool = Pool::Create(options);
  EXPECT_OK(pool);
  return *std::move(pool);
}

TEST(PoolTest, RefusesImpossibleOptions) {
  PoolOptions options;
  options.max_connections = 0;
  EXPECT_CODE(Pool::Create(options), Code::kInvalid);
  PoolOptions bad_connection;
  bad_connection.connection.port = 0;
  EXPECT_CODE(Pool::Create(bad_connection), Code::kInvalid);
}

TEST(PoolTest, UsesAConnectionAgain) {
  FakeServer server(AnswerOk);
  auto pool = MakePool(server);
  for (int i = 0; i < 10; ++i) EXPECT_OK(pool->Call(Soon(), {"PING"}));
  EXPECT_EQ(server.connections(), 1);
}

TEST(PoolTest, OpensNoMoreThanItMay) {
  FakeServer server(AnswerOk);
  auto pool = MakePool(server, 2, 50ms);
  auto first = pool->Acquire(Soon());
  auto second = pool->Acquire(Soon());
  ASSERT_OK(first);
  ASSERT_OK(second);
  const auto third = pool->Acquire(Soon());
  ASSERT_CODE(third, Code::kUnavailable);
  EXPECT_THAT(third.error().message(), HasSubstr("none of 2 connections came free"));
  EXPECT_CODE(pool->Acquire(Context::Background().WithTimeout(5ms)), Code::kDeadline);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_CODE(pool->Acquire(Soon().WithStop(stop.get_token())), Code::kCancelled);
}

TEST(PoolTest, AWaiterGetsTheConnectionThatComesFree) {
  FakeServer server(AnswerOk);
  auto pool = MakePool(server, 1);
  std::optional<Result<Pool::Lease>> held(pool->Acquire(Soon()));
  ASSERT_OK(*held);
  std::latch started(1);
  std::jthread waiter([&] {
    started.count_down();
    EXPECT_OK(pool->Call(Soon(), {"PING"}));
  });
  started.wait();
  held.reset();
  waiter.join();
  EXPECT_EQ(server.connections(), 1);
}

TEST(PoolTest, ReplacesConnectionsThatTheServerClosed) {
  FakeServer server([](FakeClient& client, int) {
    client.Read();
    client.Send("+OK\r\n");
  });
  auto pool = MakePool(server);
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(pool->Call(Soon(), {"PING"}, Repeat::kAlways));
    // The end of the connection travels on its own; until it is there the pool cannot know.
    auto lease = pool->Acquire(Soon());
    ASSERT_OK(lease);
    const auto deadline = Context::Clock::now() + 10s;
    while (!(*lease)->Stale() && (*lease)->usable() && Context::Clock::now() < deadline &&
           server.connections() == i + 1) {
      std::this_thread::yield();
    }
  }
  EXPECT_GE(server.connections(), 5);
}

TEST(PoolTest, RepeatsOnlyWhatWasNotExecutedUnlessTold) {
  std::atomic<int> calls = 0;
  // The first connection swallows a command, the others answer.
  FakeServer server([&](FakeClient& client, int number) {
    while (client.Read()) {
      ++calls;
      if (number == 0) return;
      client.Send(":1\r\n");
    }
  });
  {
    auto pool = MakePool(server);
    const auto lost = pool->Call(Soon(), {"INCR", "k"});
    ASSERT_CODE(lost, Code::kUnavailable);
    EXPECT_TRUE(lost.error().maybe_done());
    EXPECT_EQ(calls, 1);
    EXPECT_OK(pool->Call(Soon(), {"INCR", "k"}));
  }
}

TEST(PoolTest, RepeatsReadsOnALostConnection) {
  FakeServer server([&](FakeClient& client, int number) {
    while (client.Read()) {
      if (number == 0) return;
      client.Send("$1\r\nv\r\n");
    }
  });
  auto pool = MakePool(server);
  auto reply = pool->Call(Soon(), {"GET", "k"}, Repeat::kAlways);
  ASSERT_OK(reply);
  EXPECT_EQ(reply->text(), "v");
}

TEST(PoolTest, WaitsOutALoadingServer) {
  std::atomic<int> calls = 0;
  FakeServer server([&](FakeClient& client, int) {
    while (client.Read()) client.Send(++calls <= 2 ? "-LOADING wait\r\n" : "+OK\r\n");
  });
  auto pool = MakePool(server);
  EXPECT_OK(pool->Call(Soon(), {"INCR", "k"}));
  EXPECT_EQ(calls, 3);
}

TEST(PoolTest, WaitsOutALoadingServerWithABatch) {
  std::atomic<int> calls = 0;
  FakeServer server([&](FakeClient& client, int) {
    while (client.Read()) client.Send(++calls <= 2 ? "-LOADING wait\r\n" : ":1\r\n");
  });
  auto pool = MakePool(server);
  Commands commands;
  commands.Add({"INCR", "k"});
  commands.Add({"INCR", "k"});
  auto replies = pool->Run(Soon(), commands);
  ASSERT_OK(replies);
  EXPECT_EQ(replies->back(), Reply::OfInteger(1));
  EXPECT_EQ(calls, 4);
}

TEST(PoolTest, ABatchThatWasPartlyExecutedIsNotRepeated) {
  std::atomic<int> calls = 0;
  FakeServer server([&](FakeClient& client, int) {
    while (client.Read()) client.Send(++calls % 4 == 2 ? "-READONLY no\r\n" : ":1\r\n");
  });
  auto pool = MakePool(server);
  Commands commands;
  commands.Add({"INCR", "k"});
  commands.Add({"INCR", "k"});
  auto replies = pool->Run(Soon(), commands);
  ASSERT_OK(replies);
  EXPECT_TRUE(replies->back().is_error());
  EXPECT_EQ(calls, 2);
  calls = 0;
  ASSERT_OK(pool->Run(Soon(), commands, Repeat::kAlways));
  EXPECT_EQ(calls, 4);
}

TEST(PoolTest, GivesUpOnAServerThatStaysReadOnly) {
  FakeServer server([&](FakeClient& client, int) {
    while (client.Read()) client.Send("-READONLY no\r\n");
  });
  auto pool = MakePool(server);
  const auto reply = pool->Call(Soon(), {"SET", "k", "v"});
  ASSERT_CODE(reply, Code::kUnavailable);
  EXPECT_THAT(reply.error().message(), HasSubstr("replica"));
  EXPECT_EQ(server.connections(), 4);
}

TEST(PoolTest, ARefusedLoginIsNotTriedAgain) {
  FakeServer server([](FakeClient& client, int) {
    while (client.Read()) client.Send("-WRONGPASS no\r\n");
  });
  PoolOptions options;
  options.connection = server.options();
  options.connection.password = Secret("wrong");
  auto pool = Pool::Create(options);
  ASSERT_OK(pool);
  EXPECT_CODE((*pool)->Call(Soon(), {"PING"}), Code::kPermission);
  EXPECT_EQ(server.connections(), 1);
}

TEST(PoolTest, AnAbsentServerIsProbedByOneCallerAtATime) {
  FakeServer server(AnswerOk);
  server.StopListening();
  MetricsRegistry registry;
  PoolOptions options;
  options.connection = server.options();
  options.max_connections = 8;
  options.acquire_timeout = 200ms;
  options.reconnect = {.initial = 50ms, .maximum = 50ms, .jitter = 0};
  options.metrics = &registry;
  auto pool = Pool::Create(options);
  ASSERT_OK(pool);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const auto lease = (*pool)->Acquire(Soon());
        EXPECT_CODE(lease, Code::kUnavailable);
        EXPECT_THAT(lease.error().message(), HasSubstr((*pool)->address()));
      });
    }
  }
  // At most one each before the first failure, then one every 50 ms.
  EXPECT_LE((*pool)->metrics()->failed_dials.Value(), 8 + 4);
}

TEST(PoolTest, ManyThreadsShareFewConnections) {
  FakeServer server(AnswerOk);
  auto pool = MakePool(server, 3);
  std::atomic<int> done = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 50; ++j) {
          if (pool->Call(Soon(), {"PING"})) ++done;
        }
      });
    }
  }
  EXPECT_EQ(done, 400);
  EXPECT_LE(server.connections(), 3);
}

}  // namespace
}  // namespace paddleop::redis
