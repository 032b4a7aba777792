#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "redis/pool.h"

namespace paddleop::redis {

namespace internal {
class KeyLocks;
}

struct TransactionOptions {
  // After a conflict the next attempt waits a random time below n*n milliseconds, n the attempts so
  // far: the official JuiceFS client's rule, so that neither starves the other.
  int max_attempts = 50;

  Result<void> Validate() const;
};

// One attempt of a transaction, as its body sees it: read and watch, then queue writes.
//
// Not thread-safe; valid during the body only.
class Txn {
 public:
  // From here on, another client's write to one of the keys makes the transaction start again.
  Result<void> Watch(std::initializer_list<std::string_view> keys);
  // The same and the reads in one round trip; one reply for each of `reads`. An error reply to any
  // of them is an error.
  Result<std::vector<Reply>> Watch(std::span<const std::string_view> keys, const Commands& reads);
  Result<std::vector<Reply>> Watch(std::initializer_list<std::string_view> keys,
                                   const Commands& reads);

  // Reads at once; an error reply is an error. Writes do not belong here: they would happen
  // whatever becomes of the transaction, and again with each attempt.
  Result<Reply> Call(std::initializer_list<Arg> args);
  Result<Reply> Call(Args args);
  Result<std::vector<Reply>> Run(const Commands& reads);

  // Adds a write, done together with the others when the body has succeeded. The arguments are
  // copied.
  void Queue(std::initializer_list<Arg> args);
  void Queue(Args args);
  std::size_t queued() const { return writes_.empty() ? 0 : writes_.size() - 1; }

  const Context& context() const { return ctx_; }

 private:
  friend class Transactions;
  Txn(const Context& ctx, Connection& connection) : ctx_(ctx), connection_(connection) {}

  Result<std::vector<Reply>> RunWithoutErrors(const Commands& commands);
  Result<std::vector<Reply>> Commit();
  Result<std::vector<Reply>> Outcome(std::vector<Reply> replies) const;

  const Context& ctx_;
  Connection& connection_;
  Commands writes_;  // MULTI and what was queued
  bool watching_ = false;
};

// Runs optimistic transactions: read, then write on condition that nothing read has changed.
//
// Thread-safe.
class Transactions {
 public:
  // `pool` and `clock` are borrowed.
  static Result<std::unique_ptr<Transactions>> Create(Pool& pool,
                                                      const TransactionOptions& options = {},
                                                      Clock& clock = Clock::System());
  ~Transactions();

  using Body = std::function<Result<void>(Txn& txn)>;

  // Calls `body` and, if it succeeds, executes what it queued in one step; returns the replies to
  // the queued commands. A body that fails writes nothing, and its error is returned. The body runs
  // again after a conflict or a lost connection, so it must start from nothing each time and must
  // not start another transaction.
  //
  // `lock_key`, usually the first key watched, makes transactions of this process with the same key
  // take turns instead of voiding each other; empty: no turns.
  //
  // kConflict after max_attempts. kUnavailable, kDeadline or kCancelled with maybe_done() if the
  // connection was lost after EXEC had been sent: the writes may have happened, and nobody tried
  // again. Without maybe_done() nothing was written.
  Result<std::vector<Reply>> Run(const Context& ctx, std::string_view lock_key, const Body& body);

 private:
  Transactions(Pool& pool, const TransactionOptions& options, Clock& clock);
  Result<std::vector<Reply>> Attempt(const Context& ctx, const Body& body, bool& again);
  bool Pause(const Context& ctx, int attempts) const;

  Pool& pool_;
  const TransactionOptions options_;
  Clock& clock_;
  std::unique_ptr<internal::KeyLocks> locks_;
};

}  // namespace paddleop::redis
