#include "redis/pool.h"

#include <algorithm>

#include "base/check.h"

namespace paddleop::redis {

Result<void> PoolOptions::Validate() const {
  RETURN_IF_ERROR(connection.Validate());
  if (max_connections == 0) return Fail(Code::kInvalid, "redis pool without connections");
  if (acquire_timeout.count() <= 0 || idle_timeout.count() <= 0) {
    return Fail(Code::kInvalid, "redis pool timeouts must be positive");
  }
  return {};
}

Result<std::unique_ptr<Pool>> Pool::Create(PoolOptions options) {
  RETURN_IF_ERROR(options.Validate());
  return std::unique_ptr<Pool>(new Pool(std::move(options)));
}

Pool::Pool(PoolOptions options)
    : options_(std::move(options)),
      address_(options_.connection.Address()),
      backoff_(options_.reconnect) {
  if (options_.metrics != nullptr) metrics_.emplace(*options_.metrics);
}

Pool::~Pool() {
  const MutexLock lock(mutex_);
  CHECK(open_ == idle_.size(), "a connection to redis {} is still on loan", address_);
}

Result<Pool::Lease> Pool::Acquire(const Context& caller) {
  const Context ctx = caller.WithTimeout(options_.acquire_timeout);
  // The caller has time left, we have not: it may try again.
  const auto give_up = [&](Status error) -> std::unexpected<Status> {
    if (error.code() == Code::kDeadline && !caller.Expired()) {
      return Fail(Code::kUnavailable, "{}", error.message());
    }
    return std::unexpected(std::move(error));
  };
  for (;;) {
    if (auto idle = TakeIdle()) return Lease(this, std::move(idle));
    auto turn = AwaitTurn(ctx);
    if (!turn) return give_up(std::move(turn).error());
    if (*turn == Turn::kIdle) continue;
    auto connection = Dial(ctx, *turn);
    if (connection) return Lease(this, *std::move(connection));
    if (connection.error().code() != Code::kUnavailable) {
      return give_up(std::move(connection).error());
    }
  }
}

std::unique_ptr<Connection> Pool::TakeIdle() {
  for (;;) {
    std::unique_ptr<Connection> connection;
    {
      const MutexLock lock(mutex_);
      if (idle_.empty()) return nullptr;
      connection = std::move(idle_.back().connection);
      idle_.pop_back();
    }
    if (!connection->Stale()) return connection;
    connection.reset();
    const MutexLock lock(mutex_);
    --open_;
    changed_.notify_one();
  }
}

bool Pool::MayDial() const {
  if (open_ >= options_.max_connections) return false;
  return !away_ || (!probing_ && Context::Clock::now() >= retry_at_);
}

Result<Pool::Turn> Pool::AwaitTurn(const Context& ctx) {
  MutexLock lock(mutex_);
  while (idle_.empty() && !MayDial()) {
    if (ctx.Stopped()) return Fail(Code::kCancelled, "redis {}: stopped", address_);
    if (ctx.Expired()) {
      // Why the server could not be reached says more than that the time is up.
      if (away_) return std::unexpected(*away_);
      return Fail(Code::kDeadline, "redis {}: none of {} connections came free in time", address_,
                  options_.max_connections);
    }
    // A retry that is due but belongs to somebody else ends with a notification, not with time.
    const bool waits_for_retry = away_ && !probing_ && open_ < options_.max_connections;
    const auto until = waits_for_retry ? std::min(ctx.deadline(), retry_at_) : ctx.deadline();
    changed_.wait_until(lock, ctx.stop(), until,
                        [this]() REQUIRES(mutex_) { return !idle_.empty() || MayDial(); });
  }
  if (!idle_.empty()) return Turn::kIdle;
  ++open_;
  if (!away_) return Turn::kOpen;
  probing_ = true;
  return Turn::kProbe;
}

Result<std::unique_ptr<Connection>> Pool::Dial(const Context& ctx, Turn turn) {
  auto connection = Connection::Open(ctx, options_.connection, metrics());
  if (metrics_) (connection ? metrics_->dials : metrics_->failed_dials).Increment();
  const MutexLock lock(mutex_);
  if (connection) {
    away_.reset();
    backoff_.Reset();
  } else {
    --open_;
    // Several may fail at once when the server goes away; that is one failure.
    const bool news = !away_ || turn == Turn::kProbe;
    if (news && connection.error().code() == Code::kUnavailable) {
      away_ = connection.error();
      retry_at_ = Context::Clock::now() + backoff_.Take();
    }
  }
  if (turn == Turn::kProbe) probing_ = false;
  changed_.notify_all();
  return connection;
}

void Pool::Release(std::unique_ptr<Connection> connection) {
  std::vector<std::unique_ptr<Connection>> closed;  // after the lock
  const auto now = Context::Clock::now();
  const MutexLock lock(mutex_);
  if (connection->usable()) {
    idle_.push_back({std::move(connection), now});
  } else {
    closed.push_back(std::move(connection));
    --open_;
  }
  while (!idle_.empty() && now - idle_.front().since > options_.idle_timeout) {
    closed.push_back(std::move(idle_.front().connection));
    idle_.pop_front();
    --open_;
  }
  changed_.notify_one();
}

template <class Action>
auto Pool::Repeated(const Context& ctx, Repeat repeat, Action action) {
  using Outcome = decltype(action(std::declval<Connection&>()));
  Backoff backoff(options_.retry);
  for (;;) {
    Outcome outcome = [&]() -> Outcome {
      ASSIGN_OR_RETURN(const Lease lease, Acquire(ctx));
      return action(*lease);
    }();
    if (outcome || outcome.error().code() != Code::kUnavailable) return outcome;
    if (outcome.error().maybe_done() && repeat == Repeat::kIfNotExecuted) return outcome;
    if (!backoff.Sleep(ctx)) return outcome;
    if (metrics_) metrics_->retries.Increment();
  }
}

Result<Reply> Pool::Call(const Context& ctx, std::initializer_list<Arg> args, Repeat repeat) {
  return Call(ctx, Args(args.begin(), args.size()), repeat);
}

Result<Reply> Pool::Call(const Context& ctx, Args args, Repeat repeat) {
  return Repeated(ctx, repeat, [&](Connection& connection) { return connection.Call(ctx, args); });
}

Result<Reply> Pool::Do(const Context& ctx, const std::function<Result<Reply>(Connection&)>& action,
                       Repeat repeat) {
  return Repeated(ctx, repeat, action);
}

Result<std::vector<Reply>> Pool::Run(const Context& ctx, const Commands& commands, Repeat repeat) {
  return Repeated(ctx, repeat, [&](Connection& connection) -> Result<std::vector<Reply>> {
    ASSIGN_OR_RETURN(auto replies, connection.Run(ctx, commands));
    std::size_t refused = 0;
    std::optional<Status> reason;
    for (const Reply& reply : replies) {
      if (!reply.is_error()) continue;
      Status error = connection.ErrorOf(reply);
      if (error.code() != Code::kUnavailable) continue;
      ++refused;
      reason = std::move(error);
    }
    if (reason && (refused == replies.size() || repeat == Repeat::kAlways)) {
      return std::unexpected(*std::move(reason));
    }
    return replies;
  });
}

}  // namespace paddleop::redis
