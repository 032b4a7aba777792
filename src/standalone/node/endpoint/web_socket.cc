#include "standalone/node/endpoint/web_socket.h"

#include <algorithm>
#include <array>

#include "base/crypto.h"

namespace paddleop::standalone::node {
namespace {

using Kind = WebSocketFrame::Kind;

constexpr std::size_t kMessageLimit = 4 << 20;

// "a, b" has "b"?
bool Offers(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    if (item == wanted) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::string WebSocketAccept(std::string_view key) {
  return Base64Encode(Sha1(std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
}

std::optional<net::HttpHeaders> AcceptWebSocket(const net::ServerRequest& request,
                                                const std::vector<std::string>& protocols) {
  const auto upgrade = request.headers.Get("Upgrade");
  const auto key = request.headers.Get("Sec-WebSocket-Key");
  if (!upgrade || Lower(*upgrade) != "websocket" || !key) return std::nullopt;
  const auto offered = request.headers.Get("Sec-WebSocket-Protocol").value_or("");
  for (const std::string& protocol : protocols) {
    if (!Offers(offered, protocol)) continue;
    return net::HttpHeaders{{"Connection", "Upgrade"},
                            {"Upgrade", "websocket"},
                            {"Sec-WebSocket-Accept", WebSocketAccept(*key)},
                            {"Sec-WebSocket-Protocol", protocol}};
  }
  return std::nullopt;
}

Result<std::optional<WebSocketFrame>> WebSocketParser::Next() {
  if (rest_.size() < 2) return std::optional<WebSocketFrame>();
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest_[i]); };
  if ((byte(0) & 0x70) != 0) return Fail(Code::kInvalid, "a WebSocket frame with unknown flags");
  if ((byte(1) & 0x80) == 0) return Fail(Code::kInvalid, "a WebSocket frame that is not masked");
  std::size_t header = 2;
  std::uint64_t size = byte(1) & 0x7f;
  const std::size_t extra = size == 126 ? 2 : (size == 127 ? 8 : 0);
  if (rest_.size() < header + extra + 4) return std::optional<WebSocketFrame>();
  if (extra > 0) {
    size = 0;
    for (std::size_t i = 0; i < extra; ++i) size = (size << 8) | byte(header + i);
    header += extra;
  }
  if (size > limit_) return Fail(Code::kInvalid, "a WebSocket frame of {} bytes", size);
  if (rest_.size() < header + 4 + size) return std::optional<WebSocketFrame>();
  WebSocketFrame frame;
  frame.kind = static_cast<Kind>(byte(0) & 0x0f);
  frame.last = (byte(0) & 0x80) != 0;
  frame.payload = rest_.substr(header + 4, size);
  for (std::size_t i = 0; i < size; ++i)
    frame.payload[i] = static_cast<char>(frame.payload[i] ^ rest_[header + (i & 3)]);
  rest_.erase(0, header + 4 + size);
  return std::optional(std::move(frame));
}

std::string EncodeFrame(Kind kind, std::string_view payload) {
  std::string out(1, static_cast<char>(0x80 | static_cast<int>(kind)));
  if (payload.size() < 126) {
    out += static_cast<char>(payload.size());
  } else {
    const bool wide = payload.size() > 0xffff;
    out += static_cast<char>(wide ? 127 : 126);
    for (int shift = wide ? 56 : 8; shift >= 0; shift -= 8)
      out += static_cast<char>((payload.size() >> shift) & 0xff);
  }
  out += payload;
  return out;
}

Result<void> WebSocket::Send(std::string_view message) {
  const MutexLock lock(mutex_);
  if (closed_) return Fail(Code::kCancelled, "the WebSocket is closed");
  return connection_->Write(EncodeFrame(Kind::kBinary, message));
}

Result<std::string> WebSocket::Receive(const Context& ctx) {
  std::string message;
  std::array<char, 16384> buffer{};
  for (;;) {
    ASSIGN_OR_RETURN(auto frame, parser_.Next());
    if (!frame) {
      ASSIGN_OR_RETURN(const std::size_t n, connection_->Read(ctx, buffer));
      if (n == 0) return Fail(Code::kCancelled, "the client has gone");
      parser_.Feed({buffer.data(), n});
      continue;
    }
    switch (frame->kind) {
      case Kind::kClose:
        Close();
        return Fail(Code::kCancelled, "the client has closed the WebSocket");
      case Kind::kPing: {
        const MutexLock lock(mutex_);
        RETURN_IF_ERROR(connection_->Write(EncodeFrame(Kind::kPong, frame->payload)));
        break;
      }
      case Kind::kPong:
        break;
      default:
        message += frame->payload;
        if (message.size() > kMessageLimit)
          return Fail(Code::kInvalid, "a WebSocket message over {} bytes", kMessageLimit);
        if (frame->last) return message;
    }
  }
}

void WebSocket::Close() {
  const MutexLock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  // 1000: a normal end.
  (void)connection_->Write(EncodeFrame(Kind::kClose, std::string_view("\x03\xe8", 2)));
  connection_->Close();
}

}  // namespace paddleop::standalone::node
