#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/backoff.h"
#include "base/mutex.h"
#include "redis/connection.h"

namespace paddleop::redis {

struct PoolOptions {
  ConnectionOptions connection;
  std::size_t max_connections = 16;  // further callers wait for one
  // Longest wait for a connection, within the caller's deadline; it covers a restart of the server.
  std::chrono::milliseconds acquire_timeout{10'000};
  std::chrono::milliseconds idle_timeout{300'000};  // unused for longer: closed
  // Between attempts to connect while the server is away, for all callers together.
  BackoffOptions reconnect{.initial = std::chrono::milliseconds(20),
                           .maximum = std::chrono::seconds(2)};
  // Between attempts of Call() and Run().
  BackoffOptions retry{.initial = std::chrono::milliseconds(20),
                       .maximum = std::chrono::seconds(2),
                       .max_attempts = 10};
  MetricsRegistry* metrics = nullptr;  // borrowed; null: not counted

  Result<void> Validate() const;
};

// When a failed call is sent again.
enum class Repeat {
  kIfNotExecuted,  // only if the server surely has not executed it
  kAlways,         // also if it may have: for reads and for what does no harm twice
};

// A bounded set of connections to one server, opened as they are needed.
//
// Thread-safe. While the server is away, one caller at a time tries to reach it, with growing
// delays, and the others wait for the outcome until their deadline.
class Pool {
 public:
  // Connects to nothing yet. kInvalid for options that cannot work.
  static Result<std::unique_ptr<Pool>> Create(PoolOptions options);
  // All leases must have ended.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // A connection on loan; goes back to the pool at the end, or is closed if it is of no more use.
  class Lease {
   public:
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&& other) noexcept = delete;
    ~Lease() {
      if (connection_) pool_->Release(std::move(connection_));
    }
    Connection* operator->() const { return connection_.get(); }
    Connection& operator*() const { return *connection_; }

   private:
    friend class Pool;
    Lease(Pool* pool, std::unique_ptr<Connection> connection)
        : pool_(pool), connection_(std::move(connection)) {}
    Pool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  // kUnavailable if the server cannot be reached in time or no connection came free, with the last
  // reason; kPermission and other lasting refusals at once.
  Result<Lease> Acquire(const Context& ctx);

  // As the methods of Connection, on any connection; kUnavailable is tried again as `repeat`
  // allows. Run() also tries again when the server refuses the commands for a while (LOADING,
  // READONLY, ...): all of them, or any with Repeat::kAlways. Fewer are left among the replies.
  Result<Reply> Call(const Context& ctx, std::initializer_list<Arg> args,
                     Repeat repeat = Repeat::kIfNotExecuted);
  Result<Reply> Call(const Context& ctx, Args args, Repeat repeat = Repeat::kIfNotExecuted);
  Result<std::vector<Reply>> Run(const Context& ctx, const Commands& commands,
                                 Repeat repeat = Repeat::kIfNotExecuted);
  // The same for anything that one connection can do and that ends in one reply.
  Result<Reply> Do(const Context& ctx, const std::function<Result<Reply>(Connection&)>& action,
                   Repeat repeat = Repeat::kIfNotExecuted);

  const std::string& address() const { return address_; }
  const Metrics* metrics() const { return metrics_ ? &*metrics_ : nullptr; }

 private:
  struct Idle {
    std::unique_ptr<Connection> connection;
    Context::TimePoint since;
  };

  explicit Pool(PoolOptions options);

  std::unique_ptr<Connection> TakeIdle() EXCLUDES(mutex_);
  bool MayDial() const REQUIRES(mutex_);
  enum class Turn {
    kIdle,   // there is a free connection
    kOpen,   // we are to open one
    kProbe,  // we are to open one, as the only caller, to see whether the server is back
  };
  Result<Turn> AwaitTurn(const Context& ctx) EXCLUDES(mutex_);
  Result<std::unique_ptr<Connection>> Dial(const Context& ctx, Turn turn) EXCLUDES(mutex_);
  void Release(std::unique_ptr<Connection> connection) EXCLUDES(mutex_);
  template <class Action>
  auto Repeated(const Context& ctx, Repeat repeat, Action action);

  const PoolOptions options_;
  const std::string address_;
  std::optional<Metrics> metrics_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Idle> idle_ GUARDED_BY(mutex_);       // the one used last at the back
  std::size_t open_ GUARDED_BY(mutex_) = 0;        // idle, on loan or being opened
  std::optional<Status> away_ GUARDED_BY(mutex_);  // why the last attempt to connect failed
  bool probing_ GUARDED_BY(mutex_) = false;        // somebody finds out whether it still does
  Context::TimePoint retry_at_ GUARDED_BY(mutex_);
  Backoff backoff_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::redis
