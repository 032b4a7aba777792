#include "redis/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "redis/testing/fake_server.h"

namespace paddleop::redis {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeClient;
using testing::FakeServer;
using ::testing::HasSubstr;
using testing::Soon;

// A server that knows as much of transactions as is needed: EXEC's answer comes from the test.
class TransactionTest : public ::testing::Test {
 protected:
  // Answers the n-th EXEC; empty: the connection ends instead.
  using OnExec = std::function<std::string(int attempt, int queued)>;

  void Serve(OnExec on_exec, TransactionOptions options = {}) {
    on_exec_ = std::move(on_exec);
    server_ = std::make_unique<FakeServer>([this](FakeClient& client, int) { Handle(client); });
    PoolOptions pool;
    pool.connection = server_->options();
    pool.max_connections = 8;
    pool.reconnect = {.initial = 1ms, .maximum = 5ms};
    pool.metrics = &registry_;
    auto created = Pool::Create(pool);
    ASSERT_OK(created);
    pool_ = *std::move(created);
    clock_.set_auto_advance(true);
    auto transactions = Transactions::Create(*pool_, options, clock_);
    ASSERT_OK(transactions);
    transactions_ = *std::move(transactions);
  }

  void Handle(FakeClient& client) {
    int queued = -1;
    while (auto command = client.Read()) {
      const std::string& name = command->front();
      Note(name);
      if (lose_connection_on_ == name) {
        lose_connection_on_.clear();
        return;
      }
      if (name == "MULTI") {
        queued = 0;
        client.Send(refuse_multi_ ? "-ERR unknown command 'MULTI'\r\n" : "+OK\r\n");
      } else if (name == "EXEC") {
        const std::string reply = on_exec_(++execs_, std::exchange(queued, -1));
        if (reply.empty()) return;
        client.Send(reply);
      } else if (name == "DISCARD" || name == "WATCH" || name == "UNWATCH") {
        queued = -1;
        client.Send("+OK\r\n");
      } else if (queued >= 0) {
        ++queued;
        client.Send(refuse_queue_.empty() ? "+QUEUED\r\n" : refuse_queue_);
      } else if (name == "FAIL") {
        client.Send("-WRONGTYPE no\r\n");
      } else {
        client.Send("$1\r\n5\r\n");
      }
    }
  }

  void Note(const std::string& name) {
    const MutexLock lock(mutex_);
    seen_.push_back(name);
  }
  std::vector<std::string> Seen() {
    const MutexLock lock(mutex_);
    return seen_;
  }

  // Reads a key and writes it.
  static Result<void> ReadAndWrite(Txn& txn) {
    Commands reads;
    reads.Add({"GET", "k"});
    ASSIGN_OR_RETURN(auto replies, txn.Watch({"k"}, reads));
    EXPECT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0].text(), "5");
    txn.Queue({"SET", "k", 6});
    return {};
  }

  MetricsRegistry registry_;
  paddleop::testing::ManualClock clock_;
  OnExec on_exec_;
  std::string lose_connection_on_;  // the first time this command comes
  std::string refuse_queue_;
  bool refuse_multi_ = false;
  std::atomic<int> execs_ = 0;
  Mutex mutex_;
  std::vector<std::string> seen_ GUARDED_BY(mutex_);
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Transactions> transactions_;
};

constexpr char kDone[] = "*1\r\n+OK\r\n";
constexpr char kConflict[] = "*-1\r\n";

TEST_F(TransactionTest, CommitsInOneGo) {
  Serve([](int, int queued) { return queued == 1 ? kDone : "-ERR\r\n"; });
  for (int i = 0; i < 2; ++i) {
    auto replies = transactions_->Run(Soon(), "k", ReadAndWrite);
    ASSERT_OK(replies);
    ASSERT_EQ(replies->size(), 1U);
    EXPECT_EQ((*replies)[0].text(), "OK");
  }
  // MULTI is tried once per connection; no UNWATCH follows EXEC.
  EXPECT_THAT(Seen(), ElementsAre("MULTI", "DISCARD", "WATCH", "GET", "MULTI", "SET", "EXEC",  //
                                  "WATCH", "GET", "MULTI", "SET", "EXEC"));
  EXPECT_EQ(pool_->metrics()->transactions.Value(), 2);
}

TEST_F(TransactionTest, StartsAgainAfterAConflict) {
  Serve([](int attempt, int) { return attempt < 4 ? kConflict : kDone; });
  int bodies = 0;
  ASSERT_OK(transactions_->Run(Soon(), "k", [&](Txn& txn) {
    ++bodies;
    return ReadAndWrite(txn);
  }));
  EXPECT_EQ(bodies, 4);
  EXPECT_EQ(pool_->metrics()->conflicts.Value(), 3);
}

TEST_F(TransactionTest, GivesUpAfterManyConflicts) {
  Serve([](int, int) { return kConflict; }, {.max_attempts = 5});
  const auto replies = transactions_->Run(Soon(), "k", ReadAndWrite);
  ASSERT_CODE(replies, Code::kConflict);
  EXPECT_FALSE(replies.error().maybe_done());
  EXPECT_THAT(replies.error().message(), HasSubstr("5 times"));
  EXPECT_EQ(execs_, 5);
}

TEST_F(TransactionTest, ABodyThatFailsWritesNothing) {
  Serve([](int, int) { return kDone; });
  const auto failed = transactions_->Run(Soon(), "k", [&](Txn& txn) -> Result<void> {
    RETURN_IF_ERROR(txn.Watch({"k"}));
    txn.Queue({"SET", "k", 1});
    return Fail(Code::kNotFound, "no such thing");
  });
  EXPECT_CODE(failed, Code::kNotFound);
  ASSERT_OK(pool_->Call(Soon(), {"GET", "k"}));
  // The next user of the connection does not inherit the watched key.
  EXPECT_THAT(Seen(), ElementsAre("MULTI", "DISCARD", "WATCH", "UNWATCH", "GET"));
}

TEST_F(TransactionTest, NothingQueuedNeedsNoExec) {
  Serve([](int, int) { return kDone; });
  auto replies = transactions_->Run(Soon(), "k", [&](Txn& txn) { return txn.Watch({"k"}); });
  ASSERT_OK(replies);
  EXPECT_TRUE(replies->empty());
  EXPECT_EQ(execs_, 0);
}

TEST_F(TransactionTest, WritesWithoutReadsTryMultiFirst) {
  Serve([](int, int) { return kDone; });
  ASSERT_OK(transactions_->Run(Soon(), "", [&](Txn& txn) -> Result<void> {
    txn.Queue({"SET", "k", 1});
    EXPECT_EQ(txn.queued(), 1U);
    return {};
  }));
  EXPECT_THAT(Seen(), ElementsAre("MULTI", "DISCARD", "MULTI", "SET", "EXEC"));
}

TEST_F(TransactionTest, WhereMultiIsRefusedNothingIsWritten) {
  Serve([](int, int) { return kDone; });
  refuse_multi_ = true;
  const auto replies = transactions_->Run(Soon(), "", [&](Txn& txn) -> Result<void> {
    txn.Queue({"SET", "k", 1});
    return {};
  });
  EXPECT_CODE(replies, Code::kNotSupported);
  EXPECT_THAT(Seen(), ElementsAre("MULTI", "DISCARD"));
}

TEST_F(TransactionTest, AConnectionLostBeforeExecIsTriedAgain) {
  Serve([](int, int) { return kDone; });
  lose_connection_on_ = "GET";
  EXPECT_OK(transactions_->Run(Soon(), "k", ReadAndWrite));
  EXPECT_EQ(server_->connections(), 2);
}

TEST_F(TransactionTest, AConnectionLostAfterExecIsMaybeDoneAndNotTriedAgain) {
  Serve([](int, int) { return ""; });
  const auto replies = transactions_->Run(Soon(), "k", ReadAndWrite);
  ASSERT_CODE(replies, Code::kUnavailable);
  EXPECT_TRUE(replies.error().maybe_done());
  EXPECT_THAT(replies.error().message(), HasSubstr("may have been committed"));
  EXPECT_EQ(execs_, 1);
}

TEST_F(TransactionTest, AReadThatTheServerRefusesIsAnError) {
  Serve([](int, int) { return kDone; });
  const auto refused = [](Txn& txn) -> Result<void> {
    Commands reads;
    reads.Add({"FAIL"});
    RETURN_IF_ERROR(txn.Run(reads));
    return {};
  };
  EXPECT_CODE(transactions_->Run(Soon(), "k", refused), Code::kInvalid);
}

TEST_F(TransactionTest, ARefusedCommandSaysWhy) {
  Serve(
      [](int, int) { return "-EXECABORT Transaction discarded because of previous errors.\r\n"; });
  refuse_queue_ = "-OOM command not allowed\r\n";
  const auto replies = transactions_->Run(Soon(), "k", ReadAndWrite);
  ASSERT_CODE(replies, Code::kNoSpace);
  EXPECT_FALSE(replies.error().maybe_done());
  EXPECT_THAT(replies.error().message(), HasSubstr("OOM"));
}

TEST_F(TransactionTest, ACommandThatFailsInsideExecIsReported) {
  Serve([](int, int) { return "*1\r\n-WRONGTYPE no\r\n"; });
  const auto replies = transactions_->Run(Soon(), "k", ReadAndWrite);
  ASSERT_CODE(replies, Code::kInvalid);
  EXPECT_TRUE(replies.error().maybe_done());
}

TEST_F(TransactionTest, AnExecThatDoesNotFitIsCorrupt) {
  Serve([](int, int) { return "*0\r\n"; });
  EXPECT_CODE(transactions_->Run(Soon(), "k", ReadAndWrite), Code::kCorrupt);
}

TEST_F(TransactionTest, TransactionsOnOneKeyTakeTurns) {
  Serve([](int, int) { return kDone; });
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&] {
        EXPECT_OK(transactions_->Run(Soon(), "k", [&](Txn& txn) {
          most = std::max(most.load(), ++inside);
          auto done = ReadAndWrite(txn);
          --inside;
          return done;
        }));
      });
    }
  }
  EXPECT_EQ(most, 1);
}

TEST_F(TransactionTest, WaitingForATurnEndsAtTheDeadline) {
  Serve([](int, int) { return kDone; });
  std::latch inside(1);
  std::latch leave(1);
  std::jthread holder([&] {
    EXPECT_OK(transactions_->Run(Soon(), "k", [&](Txn&) -> Result<void> {
      inside.count_down();
      leave.wait();
      return {};
    }));
  });
  inside.wait();
  EXPECT_CODE(transactions_->Run(Context::Background().WithTimeout(30ms), "k", ReadAndWrite),
              Code::kDeadline);
  leave.count_down();
}

}  // namespace
}  // namespace paddleop::redis
