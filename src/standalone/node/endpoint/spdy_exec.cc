#include "standalone/node/endpoint/spdy_exec.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace paddleop::standalone::node {
namespace {

using FrameType = SpdyFrame::Type;

constexpr std::uint32_t kRefusedStream = 3;  // section 2.6.3
constexpr std::chrono::seconds kLinger{10};

std::optional<ExecStream> StreamNamed(std::string_view name) {
  if (name == "stdin") return ExecStream::kStdin;
  if (name == "stdout") return ExecStream::kStdout;
  if (name == "stderr") return ExecStream::kStderr;
  if (name == "error") return ExecStream::kError;
  if (name == "resize") return ExecStream::kResize;
  return std::nullopt;
}

bool SameWord(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::optional<net::HttpHeaders> AcceptSpdy(const net::ServerRequest& request) {
  if (!SameWord(request.headers.Get("Upgrade").value_or(""), "SPDY/3.1")) return std::nullopt;
  for (const auto& [name, value] : request.headers) {
    if (!SameWord(name, "X-Stream-Protocol-Version") || value != kSpdyExecProtocol) continue;
    return net::HttpHeaders{{"Connection", "Upgrade"},
                            {"Upgrade", "SPDY/3.1"},
                            {"X-Stream-Protocol-Version", kSpdyExecProtocol}};
  }
  return std::nullopt;
}

Result<void> SpdyExec::WaitFor(const Context& ctx, const std::set<ExecStream>& streams) {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (std::all_of(streams.begin(), streams.end(),
                      [&](ExecStream each) REQUIRES(mutex_) { return streams_.contains(each); })) {
        return {};
      }
    }
    RETURN_IF_ERROR(ReadSome(ctx));
  }
}

Result<void> SpdyExec::ReadSome(const Context& ctx) {
  for (bool any = false; !any;) {
    ASSIGN_OR_RETURN(auto frame, parser_.Next());
    for (; frame; any = true) {
      RETURN_IF_ERROR(Take(*std::move(frame)));
      ASSIGN_OR_RETURN(frame, parser_.Next());
    }
    if (any) return {};
    std::array<char, 16384> buffer{};
    ASSIGN_OR_RETURN(const std::size_t n, connection_->Read(ctx, buffer));
    if (n == 0) return Fail(Code::kCancelled, "the client has closed the connection");
    parser_.Feed({buffer.data(), n});
  }
  return {};
}

Result<void> SpdyExec::Open(const SpdyFrame& frame) {
  const auto type = frame.headers.find("streamtype");
  const auto stream = type == frame.headers.end() ? std::nullopt : StreamNamed(type->second);
  const MutexLock lock(mutex_);
  if (!stream || streams_.contains(*stream))
    return connection_->Write(SpdyWriter::RstStream(frame.stream, kRefusedStream));
  streams_[*stream] = frame.stream;
  if (frame.last) received_.push_back({.stream = *stream, .bytes = "", .ended = true});
  return connection_->Write(writer_.SynReply(frame.stream));
}

Result<void> SpdyExec::Take(SpdyFrame frame) {
  if (frame.type == FrameType::kSynStream) return Open(frame);
  if (frame.type == FrameType::kPing) {
    const MutexLock lock(mutex_);
    return connection_->Write(SpdyWriter::Ping(frame.stream));
  }
  const bool reset = frame.type == FrameType::kRstStream;
  if (frame.type != FrameType::kData && !reset) return {};
  const MutexLock lock(mutex_);
  for (const auto& [stream, id] : streams_) {
    if (id != frame.stream) continue;
    received_.push_back(
        {.stream = stream, .bytes = std::move(frame.payload), .ended = frame.last || reset});
    return {};
  }
  return {};
}

Result<ExecClient::Input> SpdyExec::Receive(const Context& ctx) {
  while (received_.empty()) RETURN_IF_ERROR(ReadSome(ctx));
  Input out = std::move(received_.front());
  received_.pop_front();
  return out;
}

Result<void> SpdyExec::Send(ExecStream stream, std::string_view bytes) {
  // Held while the connection takes the bytes: frames must not be torn apart.
  const MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return {};
  return connection_->Write(SpdyWriter::Data(found->second, bytes, false));
}

void SpdyExec::Close() {
  {
    const MutexLock lock(mutex_);
    std::uint32_t highest = 0;
    for (const auto& [stream, id] : streams_) {
      highest = std::max(highest, id);
      (void)connection_->Write(SpdyWriter::Data(id, "", true));
    }
    (void)connection_->Write(SpdyWriter::GoAway(highest));
  }
  // A connection that is closed while the client still sends (a ping, say) is reset, and what is on
  // the way to the client with it: the client closes first.
  const Context linger = Context::Background().WithTimeout(kLinger);
  while (ReadSome(linger)) received_.clear();
  connection_->Close();
}

}  // namespace paddleop::standalone::node
