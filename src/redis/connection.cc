#include "redis/connection.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "base/check.h"
#include "redis/error.h"

namespace paddleop::redis {
namespace {

// Arguments from this size on are written from where they lie.
constexpr std::size_t kBorrow = 16 << 10;
// Written under one write timeout, so that the timeout means silence and not slowness.
constexpr std::size_t kWritePiece = 1 << 20;
// A batch is sent this many chunks ahead of the replies that have been read: enough to keep the
// server busy, few enough that its replies wait in socket buffers and not in its memory.
constexpr std::size_t kChunksAhead = 2;
constexpr std::string_view kUnwatch = "*1\r\n$7\r\nUNWATCH\r\n";

Context Bounded(const Context& ctx, const ConnectionOptions& options) {
  return ctx.has_deadline() ? ctx : ctx.WithTimeout(options.default_timeout);
}

std::string Masked(std::string_view text, const std::string& secret) {
  std::string out(text);
  if (secret.empty()) return out;
  for (std::size_t at = 0; (at = out.find(secret, at)) != std::string::npos;) {
    out.replace(at, secret.size(), "***");
    at += 3;
  }
  return out;
}

}  // namespace

// A piece of a batch: a whole number of commands.
struct Connection::Chunk {
  std::string_view bytes;
  std::size_t count = 0;
};

// Counts and times one call.
class Connection::Exchange {
 public:
  explicit Exchange(const Metrics* metrics) : metrics_(metrics) {
    if (metrics_ == nullptr) return;
    metrics_->in_flight.Add(1);
    start_ = std::chrono::steady_clock::now();
  }
  ~Exchange() {
    if (metrics_ == nullptr) return;
    metrics_->in_flight.Add(-1);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_;
    metrics_->latency.Observe(taken.count());
    metrics_->commands.Increment(static_cast<double>(commands_));
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void Sent(std::size_t commands) { commands_ += commands; }

 private:
  const Metrics* metrics_;
  std::chrono::steady_clock::time_point start_;
  std::size_t commands_ = 0;
};

Connection::Connection(std::unique_ptr<net::Stream> stream, const ConnectionOptions& options,
                       const Metrics* metrics)
    : options_(options),
      address_(options.Address()),
      metrics_(metrics),
      stream_(std::move(stream)),
      parser_(options.limits) {
  if (metrics_ != nullptr) metrics_->connections.Add(1);
}

Connection::~Connection() {
  if (metrics_ != nullptr) metrics_->connections.Add(-1);
}

Result<std::unique_ptr<Connection>> Connection::Open(const Context& ctx,
                                                     const ConnectionOptions& options,
                                                     const Metrics* metrics) {
  RETURN_IF_ERROR(options.Validate());
  net::DialOptions dial;
  dial.host = options.host;
  dial.port = options.port;
  dial.unix_socket = options.unix_socket;
  dial.use_tls = options.use_tls;
  dial.tls = options.tls;
  dial.connect_timeout = options.connect_timeout;
  auto stream = net::Dial(ctx, dial);
  if (!stream) return std::unexpected(std::move(stream).error().Wrap("redis"));
  return Start(ctx, *std::move(stream), options, metrics);
}

Result<std::unique_ptr<Connection>> Connection::Start(const Context& ctx,
                                                      std::unique_ptr<net::Stream> stream,
                                                      const ConnectionOptions& options,
                                                      const Metrics* metrics) {
  std::unique_ptr<Connection> connection(new Connection(std::move(stream), options, metrics));
  RETURN_IF_ERROR(connection->LogIn(ctx));
  return connection;
}

Result<void> Connection::LogIn(const Context& ctx) {
  Commands commands;
  std::vector<std::string> steps;
  const std::string& password = options_.password.Reveal();
  if (!password.empty()) {
    steps.emplace_back("log in");
    if (options_.user.empty()) {
      commands.Add({"AUTH", password});
    } else {
      commands.Add({"AUTH", options_.user, password});
    }
  }
  if (options_.database != 0) {
    steps.push_back(fmt::format("select database {}", options_.database));
    commands.Add({"SELECT", options_.database});
  }
  if (!options_.client_name.empty()) {
    steps.emplace_back("connect");
    commands.Add({"CLIENT", "SETNAME", options_.client_name});
  }

  // The replies are kept even if there are fewer than expected: a server that refuses us says why
  // in the first and closes.
  std::vector<Reply> replies;
  bool sent = commands.empty();
  const auto next = [&](Chunk& chunk) {
    chunk = {commands.bytes(), commands.size()};
    return !std::exchange(sent, true);
  };
  const auto sink = [&](Reply reply) -> Result<void> {
    replies.push_back(std::move(reply));
    return {};
  };
  auto done = Pump(ctx.WithTimeout(options_.connect_timeout), next, sink, Effect::kEachCommand);

  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i].is_error()) continue;
    // A name is a courtesy that servers may refuse for any reason but that we are not let in.
    const std::string_view text = replies[i].text();
    Status error = StatusOfError(address_, Masked(text, password));
    const bool kept_out = (error.code() == Code::kPermission && !text.starts_with("NOPERM")) ||
                          error.code() == Code::kUnavailable;
    if (steps[i] == "connect" && !kept_out) continue;
    return std::unexpected(std::move(error).Wrap(steps[i]));
  }
  if (done) return {};
  if (done.error().code() == Code::kDeadline && !ctx.Expired()) {
    return Fail(Code::kUnavailable, "redis {}: no answer to the login within {} ms", address_,
                options_.connect_timeout.count());
  }
  // Logging in changes nothing on the server, so it may always be tried again.
  return Fail(done.error().code(), "{}", done.error().message());
}

Result<Reply> Connection::Call(const Context& ctx, std::initializer_list<Arg> args) {
  return Call(ctx, Args(args.begin(), args.size()));
}

Result<Reply> Connection::Call(const Context& ctx, Args args) {
  auto reply = CallForReply(ctx, args);
  if (reply && reply->is_error()) return std::unexpected(ErrorOf(*reply));
  return reply;
}

Result<Reply> Connection::CallForReply(const Context& caller, Args args) {
  if (!stream_) return Fail(Code::kUnavailable, "redis {}: the connection is closed", address_);
  RETURN_IF_ERROR(caller.Check());
  Exchange exchange(metrics_);
  const Context ctx = Bounded(caller, options_);
  // A command of which the server lacks even one byte is not executed.
  if (auto sent = WriteCommand(ctx, args); !sent) return Die(ctx, std::move(sent).error(), false);
  exchange.Sent(1);
  auto reply = ReadReply(ctx);
  if (!reply) return Die(ctx, std::move(reply).error(), true);
  Note(*reply);
  return reply;
}

Result<std::vector<Reply>> Connection::Run(const Context& ctx, const Commands& commands,
                                           Effect effect) {
  std::vector<Reply> replies;
  replies.reserve(commands.size());
  Commands::Mark done{0, 0};
  auto marks = commands.marks();
  const auto next = [&](Chunk& chunk) {
    if (done.count == commands.size()) return false;
    Commands::Mark end{commands.bytes().size(), commands.size()};
    if (!marks.empty()) {
      end = marks.front();
      marks = marks.subspan(1);
    }
    chunk = {commands.bytes().substr(done.bytes, end.bytes - done.bytes), end.count - done.count};
    done = end;
    return true;
  };
  const auto sink = [&](Reply reply) -> Result<void> {
    replies.push_back(std::move(reply));
    return {};
  };
  RETURN_IF_ERROR(Pump(ctx, next, sink, effect));
  return replies;
}

Result<void> Connection::RunStreaming(const Context& ctx, const CommandSource& source,
                                      const ReplySink& sink) {
  Commands buffer;
  bool more = true;
  const auto next = [&](Chunk& chunk) {
    buffer.Clear();
    while (more && buffer.bytes().size() < Commands::kMarkBytes) more = source(buffer);
    chunk = {buffer.bytes(), buffer.size()};
    return !buffer.empty();
  };
  return Pump(ctx, next, sink, Effect::kEachCommand);
}

// Sends chunk after chunk and reads their replies, at most kChunksAhead chunks behind.
Result<void> Connection::Pump(const Context& caller, const std::function<bool(Chunk&)>& next,
                              const ReplySink& sink, Effect effect) {
  if (!stream_) return Fail(Code::kUnavailable, "redis {}: the connection is closed", address_);
  RETURN_IF_ERROR(caller.Check());
  Exchange exchange(metrics_);
  const Context ctx = Bounded(caller, options_);
  std::deque<std::size_t> awaited;  // replies of each chunk sent
  bool anything_sent = false;
  bool all_sent = false;
  const auto maybe_done = [&] { return effect == Effect::kEachCommand ? anything_sent : all_sent; };
  Chunk chunk;
  for (bool more = next(chunk); more || !awaited.empty();) {
    if (more) {
      anything_sent = true;
      if (auto sent = Write(ctx, chunk.bytes); !sent) {
        return Die(ctx, std::move(sent).error(), maybe_done());
      }
      exchange.Sent(chunk.count);
      awaited.push_back(chunk.count);
      more = next(chunk);
      all_sent = !more;
      if (more && awaited.size() < kChunksAhead) continue;
    }
    for (std::size_t i = awaited.front(); i > 0; --i) {
      auto reply = ReadReply(ctx);
      if (!reply) return Die(ctx, std::move(reply).error(), maybe_done());
      Note(*reply);
      if (auto taken = sink(*std::move(reply)); !taken) {
        if (i > 1 || more || awaited.size() > 1) stream_.reset();
        return taken;
      }
    }
    awaited.pop_front();
  }
  return {};
}

Result<void> Connection::Write(const Context& ctx, std::string_view bytes) {
  if (unwatch_) {
    unwatch_ = false;
    ++skip_;
    std::string with_unwatch(kUnwatch);
    const std::size_t head = std::min(bytes.size(), kBorrow);
    with_unwatch.append(bytes.substr(0, head));
    RETURN_IF_ERROR(stream_->WriteAll(ctx.WithTimeout(options_.write_timeout), with_unwatch));
    bytes.remove_prefix(head);
  }
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, kWritePiece);
    RETURN_IF_ERROR(stream_->WriteAll(ctx.WithTimeout(options_.write_timeout), piece));
    bytes.remove_prefix(piece.size());
  }
  return {};
}

Result<void> Connection::WriteCommand(const Context& ctx, Args args) {
  scratch_.clear();
  const auto large = [](const Arg& arg) { return arg.view().size() >= kBorrow; };
  if (std::ranges::none_of(args, large)) {
    AppendCommand(scratch_, args);
    return Write(ctx, scratch_);
  }
  AppendCommandHeader(scratch_, args.size());
  for (const Arg& arg : args) {
    AppendArgHeader(scratch_, arg.view().size());
    if (large(arg)) {
      RETURN_IF_ERROR(Write(ctx, scratch_));
      RETURN_IF_ERROR(Write(ctx, arg.view()));
      scratch_.clear();
    } else {
      scratch_.append(arg.view());
    }
    scratch_.append(kArgEnd);
  }
  return Write(ctx, scratch_);
}

Result<Reply> Connection::ReadReply(const Context& ctx) {
  Reply reply;
  for (;;) {
    ASSIGN_OR_RETURN(const bool whole, parser_.Next(reply));
    if (whole) {
      if (skip_ == 0) return reply;
      --skip_;
      continue;
    }
    ASSIGN_OR_RETURN(const std::size_t got,
                     stream_->Read(ctx.WithTimeout(options_.read_timeout), parser_.Room()));
    if (got == 0) return Fail(Code::kUnavailable, "the server closed the connection");
    parser_.Commit(got);
  }
}

std::unexpected<Status> Connection::Die(const Context& ctx, Status status, bool maybe_done) {
  stream_.reset();
  if (metrics_ != nullptr) metrics_->io_errors.Increment();
  // Our own timeouts mean a silent server; only the caller's deadline is the caller's business.
  if (status.code() == Code::kDeadline && !ctx.Expired()) {
    status = Status(Code::kUnavailable,
                    fmt::format("no progress within {} ms while reading or {} ms while writing",
                                options_.read_timeout.count(), options_.write_timeout.count()));
  }
  Status error = std::move(status).Wrap(fmt::format("redis {}", address_));
  return std::unexpected(maybe_done ? std::move(error).MarkMaybeDone() : std::move(error));
}

void Connection::Note(const Reply& reply) {
  if (!reply.is_error()) return;
  if (metrics_ != nullptr) metrics_->error_replies.Increment();
  if (AsksForAnotherConnection(reply.text())) retired_ = true;
}

bool Connection::Stale() const { return !usable() || !parser_.idle() || stream_->Stale(); }

Status Connection::ErrorOf(const Reply& reply) const {
  CHECK(reply.is_error(), "a {} is no error", TypeName(reply.type()));
  return StatusOfError(address_, reply.text());
}

}  // namespace paddleop::redis
