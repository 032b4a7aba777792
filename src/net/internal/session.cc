#include "net/internal/session.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <exception>

namespace paddleop::net::internal {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kSmallRead = 8 << 10;
constexpr std::size_t kLargeRead = 64 << 10;
// Requests sent ahead of the answer, kept until their turn.
constexpr std::size_t kMaxPipelined = 64 << 10;
// How long and how much a refused client may go on sending before it must have read the refusal.
constexpr milliseconds kLingerTime(1000);
constexpr std::size_t kMaxLingerBytes = 4 << 20;

bool HasNoBody(int status) { return status / 100 == 1 || status == 204 || status == 304; }

}  // namespace

Session::Session(SessionHost& host, Strand strand, std::unique_ptr<Transport> transport,
                 std::string remote)
    : host_(host),
      strand_(std::move(strand)),
      transport_(std::move(transport)),
      remote_(std::move(remote)),
      reader_(host.options.max_header_bytes, host.options.max_body_bytes),
      read_timer_(strand_),
      write_timer_(strand_) {
  host_.metrics.connections.Add(1);
}

Session::~Session() { host_.metrics.connections.Add(-1); }

template <class Work>
void Session::Post(Work work) {
  boost::asio::post(strand_,
                    [self = shared_from_this(), work = std::move(work)]() mutable { work(*self); });
}

void Session::Arm(boost::asio::steady_timer& timer, milliseconds after,
                  void (Session::*expired)()) {
  timer.expires_after(after);
  timer.async_wait([weak = weak_from_this(), &timer, expired](IoError error) {
    if (error) return;
    const auto self = weak.lock();
    if (!self || self->state_ == State::kClosed) return;
    // It may have been armed anew after this call was already under way.
    if (timer.expiry() <= std::chrono::steady_clock::now()) (*self.*expired)();
  });
}

void Session::Start() {
  Post([](Session& self) {
    self.Arm(self.read_timer_, self.host_.options.header_timeout, &Session::Close);
    self.transport_->Handshake(
        [keep = self.shared_from_this()](IoError error, std::size_t) { keep->OnHandshake(error); });
  });
}

void Session::OnHandshake(IoError error) {
  if (state_ == State::kClosed) return;
  if (error) return Close();
  client_name_ = transport_->ClientName();
  state_ = State::kReading;
  if (host_.stopping) return Close();
  Advance();
}

void Session::Finish() {
  Post([](Session& self) {
    self.keep_alive_ = false;
    const bool idle =
        self.state_ == State::kReading && self.reader_.phase() == RequestReader::Phase::kIdle;
    if (idle || self.state_ == State::kHandshake) return self.Close();
    if (self.core_) {
      self.core_->Disconnect(false);
      self.Flush();
    }
  });
}

void Session::Abort() {
  Post([](Session& self) { self.Close(); });
}

void Session::Close() {
  if (state_ == State::kClosed) return;
  const auto keep = shared_from_this();
  state_ = State::kClosed;
  closed_ = true;
  read_timer_.cancel();
  write_timer_.cancel();
  request_stop_.request_stop();
  transport_->Close();
  if (const auto core = std::exchange(core_, nullptr)) {
    host_.metrics.streams.Add(-1);
    core->Disconnect(true);
  }
  host_.on_closed(this);
}

// Reading.

bool Session::MayRead() const {
  switch (state_) {
    case State::kReading:
    case State::kLingering:
      return true;
    case State::kHandling:
    case State::kResponding:
    case State::kContinuing:
      return reader_.buffered() < kMaxPipelined;
    case State::kStreaming:
      return upgraded_ ? core_->HasInputRoom() : reader_.buffered() < kMaxPipelined;
    case State::kHandshake:
    case State::kClosed:
      return false;
  }
  return false;
}

void Session::StartRead() {
  if (reading_ || peer_closed_ || !MayRead()) return;
  reading_ = true;
  const bool large = reader_.phase() == RequestReader::Phase::kBody || upgraded_;
  read_buffer_.resize(large ? kLargeRead : kSmallRead);
  transport_->ReadSome(read_buffer_, [self = shared_from_this()](IoError error, std::size_t count) {
    self->OnRead(error, count);
  });
}

void Session::OnRead(IoError error, std::size_t count) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) return OnPeerClosed();
  const std::string_view bytes(read_buffer_.data(), count);
  if (state_ == State::kLingering) {
    discarded_ += count;
    if (discarded_ > kMaxLingerBytes) return Close();
    return StartRead();
  }
  if (state_ == State::kStreaming && upgraded_) {
    core_->PutInput(bytes);
    return StartRead();
  }
  reader_.Append(bytes);
  if (state_ == State::kReading) return Advance();
  StartRead();
}

void Session::OnPeerClosed() {
  peer_closed_ = true;
  keep_alive_ = false;
  switch (state_) {
    case State::kHandling:
      // It may have closed only its half, so the answer is sent all the same.
      request_stop_.request_stop();
      return;
    case State::kResponding:
      return;
    default:
      Close();
  }
}

void Session::Advance() {
  switch (reader_.Advance()) {
    case RequestReader::Step::kNeedMore:
      SetReadTimer();
      return StartRead();
    case RequestReader::Step::kExpectContinue:
      state_ = State::kContinuing;
      return Write("HTTP/1.1 100 Continue\r\n\r\n");
    case RequestReader::Step::kRequest:
      return Dispatch();
    case RequestReader::Step::kRefused: {
      const auto& refusal = reader_.refusal();
      const bool too_large = refusal.status == 413 || refusal.status == 431;
      (too_large ? host_.metrics.too_large : host_.metrics.malformed).Increment();
      return Refuse(refusal.status, refusal.why);
    }
  }
}

// One limit for each phase of a request, from its beginning: sending a byte now and then does not
// extend it.
void Session::SetReadTimer() {
  const auto phase = reader_.phase();
  if (timing_ && phase == timed_phase_) return;
  timing_ = true;
  timed_phase_ = phase;
  const auto& options = host_.options;
  const auto limit = phase == RequestReader::Phase::kIdle     ? options.idle_timeout
                     : phase == RequestReader::Phase::kHeader ? options.header_timeout
                                                              : options.body_timeout;
  Arm(read_timer_, limit, &Session::OnReadTimer);
}

void Session::OnReadTimer() {
  if (state_ != State::kReading) return;
  if (reader_.phase() == RequestReader::Phase::kIdle) return Close();
  host_.metrics.timeout.Increment();
  Refuse(408, "the request took too long to arrive");
}

// Handling.

void Session::Dispatch() {
  timing_ = false;
  read_timer_.cancel();
  state_ = State::kHandling;
  auto message = reader_.Take();
  keep_alive_ = message.keep_alive && !host_.stopping && !peer_closed_;
  http_1_0_ = message.http_1_0;
  head_only_ = message.request.method == "HEAD";
  request_stop_ = std::stop_source();
  message.request.remote = remote_;
  message.request.client_name = client_name_;
  const auto ctx = Context::Background().WithStop(request_stop_.get_token());
  const bool queued = host_.handlers.TrySubmit(
      [self = shared_from_this(), ctx, request = std::move(message.request)] {
        self->Handle(ctx, request);
      });
  if (!queued) {
    host_.metrics.overloaded.Increment();
    auto busy = ServerResponse::Text(503, "the server is overloaded, try again\n");
    busy.headers.Add("Retry-After", "1");
    return Respond(std::move(busy));
  }
  StartRead();
}

void Session::Handle(const Context& ctx, const ServerRequest& request) {
  if (closed_) return;
  const auto start = std::chrono::steady_clock::now();
  host_.metrics.in_flight.Add(1);
  ServerResponse response;
  // Handlers do not throw; but a library below one may, and that is one answer, not the process.
  try {
    response = host_.handler(ctx, request);
  } catch (const std::exception&) {
    response = ServerResponse::Text(500, "internal error\n");
  }
  host_.metrics.in_flight.Add(-1);
  host_.metrics.seconds.Observe(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());

  const auto stream = std::exchange(response.stream, nullptr);
  const auto upgrade = std::exchange(response.upgrade, nullptr);
  if ((!stream && !upgrade) || (stream && request.method == "HEAD")) {
    return Post([response = std::move(response)](Session& self) mutable {
      self.OnResponse(std::move(response));
    });
  }
  auto core =
      std::make_shared<StreamCore>(host_.options.max_stream_buffer, [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self) self->Post([](Session& session) { session.Flush(); });
      });
  Post([head = std::move(response), core](Session& self) { self.OnStream(head, core); });
  auto handle = MakeStream(std::move(core));
  if (upgrade) {
    upgrade(std::move(handle));
  } else {
    stream(std::move(handle));
  }
}

void Session::OnResponse(ServerResponse response) {
  if (state_ == State::kHandling) Respond(std::move(response));
}

void Session::Refuse(int status, std::string why) {
  keep_alive_ = false;
  head_only_ = false;
  refused_ = true;
  why += '\n';
  Respond(ServerResponse::Text(status, std::move(why)));
}

void Session::Respond(ServerResponse response) {
  state_ = State::kResponding;
  timing_ = false;
  read_timer_.cancel();
  keep_alive_ = keep_alive_ && !host_.stopping && !peer_closed_;
  HeadOptions options{.content_length = response.body.size(), .keep_alive = keep_alive_};
  if (HasNoBody(response.status)) {
    options.framing = Framing::kNone;
    response.body.clear();
  }
  auto head = FormatHead(response, options);
  if (!head) {
    response = ServerResponse::Text(500, "internal error\n");
    options = {.content_length = response.body.size(), .keep_alive = keep_alive_};
    head = FormatHead(response, options);
  }
  host_.metrics.CountResponse(response.status);
  Write(*std::move(head), head_only_ ? std::string() : std::move(response.body));
}

// The whole answer is with the kernel.
void Session::OnSent() {
  if (!keep_alive_ || peer_closed_ || host_.stopping) return Linger();
  state_ = State::kReading;
  Advance();
}

// Streaming.

void Session::OnStream(const ServerResponse& head, std::shared_ptr<StreamCore> core) {
  if (state_ != State::kHandling || peer_closed_) {
    core->Disconnect(true);
    if (state_ != State::kClosed) Close();
    return;
  }
  state_ = State::kStreaming;
  core_ = std::move(core);
  host_.metrics.streams.Add(1);
  upgraded_ = head.status == 101;
  framing_ = upgraded_ ? Framing::kNone : http_1_0_ ? Framing::kUntilClose : Framing::kChunked;
  HeadOptions options{.framing = framing_, .keep_alive = keep_alive_ && !http_1_0_};
  if (const auto length = head.headers.Get("Content-Length"); length && !upgraded_) {
    std::size_t size = 0;
    std::from_chars(length->data(), length->data() + length->size(), size);
    framing_ = options.framing = Framing::kLength;
    stream_left_ = options.content_length = size;
  }
  if (framing_ == Framing::kUntilClose || upgraded_) keep_alive_ = false;
  auto text = FormatHead(head, options);
  if (!text) return Close();
  host_.metrics.CountResponse(head.status);
  if (upgraded_) core_->PutInput(reader_.TakeRest());
  if (host_.stopping) core_->Disconnect(false);
  Write(*std::move(text));
  StartRead();
}

// Sends the next bytes of the stream, or its end.
void Session::Flush() {
  if (state_ != State::kStreaming) return;
  if (upgraded_) StartRead();
  if (writing_) return;
  auto bytes = core_->Take();
  if (bytes.empty()) {
    if (core_->Drained()) EndStream();
    return;
  }
  if (framing_ == Framing::kChunked) {
    auto size = fmt::format("{:x}\r\n", bytes.size());
    return Write(std::move(size), std::move(bytes), "\r\n");
  }
  if (framing_ == Framing::kLength) {
    // More than was announced would be read as the next response.
    if (bytes.size() > stream_left_) return Close();
    stream_left_ -= bytes.size();
  }
  Write({}, std::move(bytes));
}

void Session::EndStream() {
  // A body cut short can only be told by closing.
  if (framing_ == Framing::kLength && stream_left_ > 0) return Close();
  host_.metrics.streams.Add(-1);
  std::exchange(core_, nullptr)->Disconnect(true);
  state_ = State::kResponding;
  upgraded_ = false;
  if (framing_ == Framing::kChunked) return Write("0\r\n\r\n");
  OnSent();
}

// Writing.

void Session::Write(std::string head, std::string body, std::string tail) {
  out_ = {std::move(head), std::move(body), std::move(tail)};
  out_sent_ = 0;
  writing_ = true;
  WriteMore();
}

void Session::WriteMore() {
  Transport::Pieces pieces;
  auto skip = out_sent_;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto gone = std::min(skip, out_[i].size());
    pieces[i] = std::string_view(out_[i]).substr(gone);
    skip -= gone;
  }
  Arm(write_timer_, host_.options.write_timeout, &Session::OnWriteTimer);
  transport_->WriteSome(pieces, [self = shared_from_this()](IoError error, std::size_t count) {
    self->OnWritten(error, count);
  });
}

void Session::OnWritten(IoError error, std::size_t count) {
  if (state_ == State::kClosed) return;
  if (error) return Close();
  ReportProgress(count);
  out_sent_ += count;
  if (out_sent_ < out_[0].size() + out_[1].size() + out_[2].size()) return WriteMore();
  writing_ = false;
  write_timer_.cancel();
  out_ = {};
  switch (state_) {
    case State::kContinuing:
      state_ = State::kReading;
      return Advance();
    case State::kResponding:
      return OnSent();
    case State::kStreaming:
      return Flush();
    default:
      return;
  }
}

// Of the bytes just sent, those of the stream make room for others.
void Session::ReportProgress(std::size_t count) {
  if (state_ != State::kStreaming) return;
  const auto body_start = out_[0].size();
  const auto body_end = body_start + out_[1].size();
  const auto from = std::clamp(out_sent_, body_start, body_end);
  const auto to = std::clamp(out_sent_ + count, body_start, body_end);
  if (to > from) core_->Sent(to - from);
}

// Closing at once while a refused client still sends would make its system throw the answer away
// unread.
void Session::Linger() {
  if (peer_closed_) return Close();
  state_ = State::kLingering;
  discarded_ = 0;
  Arm(read_timer_, kLingerTime, &Session::OnLingerTimer);
  transport_->ShutdownWrite([self = shared_from_this()](IoError error, std::size_t) {
    if (error || !self->refused_) self->Close();
  });
  if (refused_) StartRead();
}

}  // namespace paddleop::net::internal
