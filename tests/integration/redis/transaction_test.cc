// Optimistic transactions on a real redis-server.
#include "redis/transaction.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "server.h"

namespace paddleop::redis {
namespace {

std::unique_ptr<Transactions> MakeTransactions(Pool& pool) {
  auto transactions = Transactions::Create(pool);
  EXPECT_OK(transactions);
  return *std::move(transactions);
}

// Reads a number, adds one, writes it back: loses updates unless the transaction protects it.
Result<void> Increment(Txn& txn) {
  Commands reads;
  reads.Add({"GET", "counter"});
  ASSIGN_OR_RETURN(auto replies, txn.Watch({"counter"}, reads));
  std::int64_t value = 0;
  if (!replies[0].is_nil()) {
    ASSIGN_OR_RETURN(value, replies[0].ToInteger());
  }
  txn.Queue({"SET", "counter", value + 1});
  txn.Queue({"HINCRBY", "count", "field", 1});
  return {};
}

TEST(RedisTransactions, NoUpdateIsLost) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto options = server->options();
  MetricsRegistry registry;
  options.metrics = &registry;
  auto pool = Server::MakePool(options);
  // Two sets of turns, as if in two processes: only Redis keeps their transactions apart.
  const std::unique_ptr<Transactions> sides[] = {MakeTransactions(*pool), MakeTransactions(*pool)};
  constexpr int kThreads = 8;
  constexpr int kEach = 100;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (int j = 0; j < kEach; ++j) {
          auto replies = sides[i % 2]->Run(Soon(), "counter", Increment);
          ASSERT_OK(replies);
          ASSERT_EQ(replies->size(), 2U);
        }
      });
    }
  }
  auto counter = pool->Call(Soon(), {"GET", "counter"});
  ASSERT_OK(counter);
  EXPECT_EQ(*counter->ToInteger(), kThreads * kEach);
  auto field = pool->Call(Soon(), {"HGET", "count", "field"});
  ASSERT_OK(field);
  EXPECT_EQ(*field->ToInteger(), kThreads * kEach);
  EXPECT_GT(pool->metrics()->conflicts.Value(), 0);
  EXPECT_EQ(pool->metrics()->transactions.Value(), kThreads * kEach);
}

TEST(RedisTransactions, AConflictStartsTheBodyAgain) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto pool = server->MakePool();
  auto intruder = server->Connect();
  auto transactions = MakeTransactions(*pool);
  int attempts = 0;
  ASSERT_OK(transactions->Run(Soon(), "counter", [&](Txn& txn) -> Result<void> {
    RETURN_IF_ERROR(Increment(txn));
    if (++attempts > 2) return {};
    RETURN_IF_ERROR(intruder->Call(Soon(), {"SET", "counter", attempts * 10}));
    return {};
  }));
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(pool->Call(Soon(), {"GET", "counter"})->text(), "21");
}

TEST(RedisTransactions, AFailedBodyLeavesNoTraceAndNoWatch) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto options = server->options();
  options.max_connections = 1;
  auto pool = Server::MakePool(options);
  auto intruder = server->Connect();
  auto transactions = MakeTransactions(*pool);
  EXPECT_CODE(transactions->Run(Soon(), "counter",
                                [&](Txn& txn) -> Result<void> {
                                  RETURN_IF_ERROR(Increment(txn));
                                  return Fail(Code::kNotEmpty, "no");
                                }),
              Code::kNotEmpty);
  EXPECT_TRUE(pool->Call(Soon(), {"GET", "counter"})->is_nil());
  // The same connection again: the key that was watched before no longer matters.
  ASSERT_OK(intruder->Call(Soon(), {"SET", "counter", 7}));
  int attempts = 0;
  ASSERT_OK(transactions->Run(Soon(), "other", [&](Txn& txn) -> Result<void> {
    ++attempts;
    txn.Queue({"SET", "other", 1});
    return {};
  }));
  EXPECT_EQ(attempts, 1);
}

TEST(RedisTransactions, LargeTransactionsAreOneStep) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto pool = server->MakePool();
  auto transactions = MakeTransactions(*pool);
  auto replies = transactions->Run(Soon(), "h", [&](Txn& txn) -> Result<void> {
    RETURN_IF_ERROR(txn.Watch({"h"}));
    for (int i = 0; i < 20'000; ++i) txn.Queue({"HSET", "h", i, std::string(50, 'x')});
    return {};
  });
  ASSERT_OK(replies);
  EXPECT_EQ(replies->size(), 20'000U);
  EXPECT_EQ(*pool->Call(Soon(), {"HLEN", "h"})->ToInteger(), 20'000);
}

TEST(RedisTransactions, ErrorsOfCommandsAreReported) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto pool = server->MakePool();
  auto transactions = MakeTransactions(*pool);
  const auto refused = transactions->Run(Soon(), "", [&](Txn& txn) -> Result<void> {
    txn.Queue({"SET", "a", 1});
    txn.Queue({"NOSUCHCOMMAND"});
    return {};
  });
  ASSERT_CODE(refused, Code::kNotSupported);
  EXPECT_FALSE(refused.error().maybe_done());
  EXPECT_TRUE(pool->Call(Soon(), {"GET", "a"})->is_nil());

  const auto partly = transactions->Run(Soon(), "", [&](Txn& txn) -> Result<void> {
    txn.Queue({"SET", "a", 1});
    txn.Queue({"LPUSH", "a", 1});
    return {};
  });
  ASSERT_CODE(partly, Code::kInvalid);
  EXPECT_TRUE(partly.error().maybe_done());
}

// The server dies again and again between reads and EXECs. The counter and the hash are written
// together, so they must agree whatever happened.
TEST(RedisTransactions, StayWholeWhenTheServerDies) {
  auto server = Server::Start({"--appendonly", "--config", "appendfsync always"});
  ASSERT_OK(server);
  auto pool = server->MakePool();
  auto transactions = MakeTransactions(*pool);
  std::atomic<bool> over = false;
  std::atomic<std::int64_t> committed = 0;
  std::atomic<std::int64_t> uncertain = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        while (!over) {
          const auto done = transactions->Run(Soon(), "counter", Increment);
          if (done) {
            ++committed;
          } else {
            EXPECT_CODE(done, Code::kUnavailable);
            uncertain += done.error().maybe_done() ? 1 : 0;
          }
        }
      });
    }
    for (int round = 0; round < 3; ++round) {
      const auto before = committed.load();
      EXPECT_TRUE(paddleop::testing::WaitFor([&] { return committed > before + 20; }));
      server->Command("kill redis");
      server->Command("start redis");
    }
    over = true;
  }
  auto counter = pool->Call(Soon(), {"GET", "counter"}, Repeat::kAlways);
  auto field = pool->Call(Soon(), {"HGET", "count", "field"}, Repeat::kAlways);
  ASSERT_OK(counter);
  ASSERT_OK(field);
  EXPECT_EQ(*counter->ToInteger(), *field->ToInteger());
  EXPECT_GE(*counter->ToInteger(), committed);
  EXPECT_LE(*counter->ToInteger(), committed + uncertain);
}

}  // namespace
}  // namespace paddleop::redis
