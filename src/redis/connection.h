#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "net/stream.h"
#include "redis/command.h"
#include "redis/metrics.h"
#include "redis/options.h"
#include "redis/reply.h"
#include "redis/reply_parser.h"

namespace paddleop::redis {

// What the commands of a batch do to the server, and so what may have happened if it is cut off.
enum class Effect {
  kEachCommand,  // each by itself
  kLastCommand,  // nothing until the last one: MULTI ... EXEC
};

// Appends the next commands and returns true, or returns false when there are no more.
using CommandSource = std::function<bool(Commands& out)>;
// Takes the replies in order. An error ends the call and the connection.
using ReplySink = std::function<Result<void>(Reply reply)>;

// One connection to a Redis server, logged in and with its database chosen.
//
// Failures of the connection are kUnavailable (closed, reset, silent for too long), kDeadline,
// kCancelled, kCorrupt (no RESP) or kInvalid (a reply over the limits); after one of them the
// connection is dead and every call returns kUnavailable. Status::maybe_done() tells whether the
// server may have executed the command: if not, it is safe to send it again on another connection.
// Error replies leave the connection alive; their codes are those of StatusOfError().
//
// Not thread-safe.
class Connection {
 public:
  // Connects and logs in, in one round trip. kPermission when the server does not let us in.
  static Result<std::unique_ptr<Connection>> Open(const Context& ctx,
                                                  const ConnectionOptions& options,
                                                  const Metrics* metrics = nullptr);
  // The same over a stream that is already there.
  static Result<std::unique_ptr<Connection>> Start(const Context& ctx,
                                                   std::unique_ptr<net::Stream> stream,
                                                   const ConnectionOptions& options,
                                                   const Metrics* metrics = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends one command and returns its reply; an error reply is an error. Large arguments are not
  // copied.
  Result<Reply> Call(const Context& ctx, std::initializer_list<Arg> args);
  Result<Reply> Call(const Context& ctx, Args args);
  // As Call, but an error reply is a value, for callers that look at its text.
  Result<Reply> CallForReply(const Context& ctx, Args args);

  // Sends all commands in one go and returns one reply for each, in order; error replies are among
  // them. If it fails, some of the commands may have been executed.
  Result<std::vector<Reply>> Run(const Context& ctx, const Commands& commands,
                                 Effect effect = Effect::kEachCommand);
  // Any number of commands in bounded memory: asks `source` as the server keeps up and hands each
  // reply to `sink`. The sink is behind the source by some thousand commands.
  Result<void> RunStreaming(const Context& ctx, const CommandSource& source, const ReplySink& sink);

  // Forgets watched keys, with the next command: saves a round trip where a transaction ends
  // without EXEC.
  void UnwatchLater() { unwatch_ = true; }
  // Whether MULTI has been seen to work here (Transactions asks once per connection).
  bool multi_checked() const { return multi_checked_; }
  void set_multi_checked() { multi_checked_ = true; }

  // False once the connection has failed, or the server has said that another one would do better.
  bool usable() const { return stream_ != nullptr && !retired_; }
  // True if it is unusable, or the server has closed it or sent something that nobody asked for.
  bool Stale() const;
  const std::string& address() const { return address_; }
  // The error for an error reply of this server.
  Status ErrorOf(const Reply& reply) const;

 private:
  struct Chunk;
  class Exchange;

  Connection(std::unique_ptr<net::Stream> stream, const ConnectionOptions& options,
             const Metrics* metrics);

  Result<void> LogIn(const Context& ctx);
  Result<void> Write(const Context& ctx, std::string_view bytes);
  Result<void> WriteCommand(const Context& ctx, Args args);
  Result<Reply> ReadReply(const Context& ctx);
  Result<void> Pump(const Context& ctx, const std::function<bool(Chunk&)>& next,
                    const ReplySink& sink, Effect effect);
  std::unexpected<Status> Die(const Context& ctx, Status status, bool maybe_done);
  void Note(const Reply& reply);

  const ConnectionOptions options_;
  const std::string address_;
  const Metrics* metrics_;
  std::unique_ptr<net::Stream> stream_;  // null once dead
  ReplyParser parser_;
  std::string scratch_;   // the command being sent
  bool unwatch_ = false;  // UNWATCH goes before the next command
  std::size_t skip_ = 0;  // replies to UNWATCH that nobody waits for
  bool retired_ = false;
  bool multi_checked_ = false;
};

}  // namespace paddleop::redis
