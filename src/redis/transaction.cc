#include "redis/transaction.h"

#include <algorithm>
#include <random>
#include <utility>

#include "redis/internal/key_locks.h"

namespace paddleop::redis {
namespace {

// Random without shared state: threads that collide must not draw the same delay.
std::uint64_t RandomBelow(std::uint64_t bound) {
  thread_local std::minstd_rand random(std::random_device{}());
  return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
}

}  // namespace

Result<void> TransactionOptions::Validate() const {
  if (max_attempts < 1) return Fail(Code::kInvalid, "redis transactions need at least one attempt");
  return {};
}

Result<void> Txn::Watch(std::initializer_list<std::string_view> keys) {
  RETURN_IF_ERROR(Watch(keys, Commands()));
  return {};
}

Result<std::vector<Reply>> Txn::Watch(std::initializer_list<std::string_view> keys,
                                      const Commands& reads) {
  return Watch(std::span(keys.begin(), keys.size()), reads);
}

Result<std::vector<Reply>> Txn::Watch(std::span<const std::string_view> keys,
                                      const Commands& reads) {
  Commands commands;
  // Where MULTI is refused (by a proxy, by an ACL), the writes after it would be executed one by
  // one and unconditionally. So it is tried once per connection, before anything depends on it.
  const bool check = !connection_.multi_checked();
  if (check) {
    commands.Add({"MULTI"});
    commands.Add({"DISCARD"});
  }
  if (!keys.empty()) {
    std::vector<Arg> watch = {"WATCH"};
    watch.insert(watch.end(), keys.begin(), keys.end());
    commands.Add(watch);
    watching_ = true;
  }
  commands.Append(reads);
  if (commands.empty()) return std::vector<Reply>();

  ASSIGN_OR_RETURN(auto replies, RunWithoutErrors(commands));
  const auto own = static_cast<std::ptrdiff_t>(commands.size() - reads.size());
  if (check) connection_.set_multi_checked();
  replies.erase(replies.begin(), replies.begin() + own);
  return replies;
}

Result<Reply> Txn::Call(std::initializer_list<Arg> args) { return connection_.Call(ctx_, args); }

Result<Reply> Txn::Call(Args args) { return connection_.Call(ctx_, args); }

Result<std::vector<Reply>> Txn::Run(const Commands& reads) { return RunWithoutErrors(reads); }

Result<std::vector<Reply>> Txn::RunWithoutErrors(const Commands& commands) {
  auto replies = connection_.Run(ctx_, commands);
  if (!replies) return replies;
  const auto error = std::ranges::find_if(*replies, &Reply::is_error);
  if (error != replies->end()) return std::unexpected(connection_.ErrorOf(*error));
  return replies;
}

void Txn::Queue(std::initializer_list<Arg> args) { Queue(Args(args.begin(), args.size())); }

void Txn::Queue(Args args) {
  if (writes_.empty()) writes_.Add({"MULTI"});
  writes_.Add(args);
}

Result<std::vector<Reply>> Txn::Commit() {
  if (!connection_.multi_checked()) RETURN_IF_ERROR(Watch({}, Commands()));
  writes_.Add({"EXEC"});
  ASSIGN_OR_RETURN(auto replies, connection_.Run(ctx_, writes_, Effect::kLastCommand));
  watching_ = false;  // EXEC ends that, whatever its outcome
  return Outcome(std::move(replies));
}

// MULTI's, "QUEUED" for each write, and EXEC's.
Result<std::vector<Reply>> Txn::Outcome(std::vector<Reply> replies) const {
  Reply exec = std::move(replies.back());
  if (exec.is_nil()) return Fail(Code::kConflict, "another client changed what was read");
  if (!exec.is_array()) {
    // EXECABORT only says that a command was refused; that command's reply says why.
    const auto refused = std::find_if(replies.begin(), replies.end() - 1,
                                      [](const Reply& r) { return r.is_error(); });
    if (refused != replies.end() - 1) {
      Status error = connection_.ErrorOf(*refused).Wrap("transaction refused");
      // Without MULTI each write was executed as it came.
      if (refused == replies.begin()) error = std::move(error).MarkMaybeDone();
      return std::unexpected(std::move(error));
    }
    if (exec.is_error()) return std::unexpected(connection_.ErrorOf(exec));
    return Fail(Code::kCorrupt, "redis {}: EXEC answered with a {}", connection_.address(),
                TypeName(exec.type()));
  }
  auto results = std::move(exec).TakeElements();
  if (results.size() + 2 != replies.size()) {
    return Fail(Code::kCorrupt, "redis {}: EXEC answered {} of {} commands", connection_.address(),
                results.size(), replies.size() - 2);
  }
  for (const Reply& result : results) {
    // Redis does not undo the others: the caller has queued a command that cannot work.
    if (result.is_error()) {
      return std::unexpected(connection_.ErrorOf(result)
                                 .Wrap("transaction executed, but not all of its commands")
                                 .MarkMaybeDone());
    }
  }
  return results;
}

Transactions::Transactions(Pool& pool, const TransactionOptions& options, Clock& clock)
    : pool_(pool),
      options_(options),
      clock_(clock),
      locks_(std::make_unique<internal::KeyLocks>()) {}

Transactions::~Transactions() = default;

Result<std::unique_ptr<Transactions>> Transactions::Create(Pool& pool,
                                                           const TransactionOptions& options,
                                                           Clock& clock) {
  RETURN_IF_ERROR(options.Validate());
  return std::unique_ptr<Transactions>(new Transactions(pool, options, clock));
}

Result<std::vector<Reply>> Transactions::Run(const Context& ctx, std::string_view lock_key,
                                             const Body& body) {
  std::optional<internal::KeyLocks::Hold> turn;
  if (!lock_key.empty()) {
    ASSIGN_OR_RETURN(auto hold, locks_->Lock(ctx, lock_key));
    turn.emplace(std::move(hold));
  }
  for (int attempts = 1;; ++attempts) {
    bool again = false;
    auto outcome = Attempt(ctx, body, again);
    if (outcome || !again) return outcome;
    if (attempts >= options_.max_attempts) {
      return std::unexpected(
          std::move(outcome).error().Wrap(fmt::format("transaction failed {} times", attempts)));
    }
    // The reason to try again says more than that there is no time to.
    if (!Pause(ctx, attempts)) return outcome;
  }
}

// `again` tells whether nothing was written and another attempt may succeed.
Result<std::vector<Reply>> Transactions::Attempt(const Context& ctx, const Body& body,
                                                 bool& again) {
  ASSIGN_OR_RETURN(auto lease, pool_.Acquire(ctx));
  Txn txn(ctx, *lease);
  auto done = body(txn);
  if (!done || txn.queued() == 0) {
    if (txn.watching_) lease->UnwatchLater();
    // A lost connection is nobody's decision; other errors are the body's.
    again = !done && !lease->usable() && done.error().code() == Code::kUnavailable;
    if (done) return std::vector<Reply>();
    // What may have happened on a lost connection were reads.
    if (!lease->usable()) return Fail(done.error().code(), "{}", done.error().message());
    return std::unexpected(std::move(done).error());
  }
  auto replies = txn.Commit();
  if (txn.watching_) lease->UnwatchLater();
  if (replies) {
    if (pool_.metrics() != nullptr) pool_.metrics()->transactions.Increment();
    return replies;
  }
  const Status& error = replies.error();
  if (IsConflict(error) && pool_.metrics() != nullptr) pool_.metrics()->conflicts.Increment();
  if (error.maybe_done() && !lease->usable()) {
    return std::unexpected(error.Wrap("the transaction may have been committed"));
  }
  again = IsRetryable(error) && !error.maybe_done();
  return replies;
}

bool Transactions::Pause(const Context& ctx, int attempts) const {
  const auto bound = static_cast<std::uint64_t>(attempts) * static_cast<std::uint64_t>(attempts);
  return clock_.SleepFor(ctx, std::chrono::milliseconds(RandomBelow(bound)));
}

}  // namespace paddleop::redis
