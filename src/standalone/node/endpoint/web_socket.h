// WebSocket (RFC 6455), the server's side, over an upgraded HTTP connection.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/mutex.h"
#include "net/http_server.h"

namespace paddleop::standalone::node {

// The value of Sec-WebSocket-Accept for a client's key.
std::string WebSocketAccept(std::string_view key);

// The headers of a 101 answer, or nullopt if the request is no WebSocket handshake that speaks one
// of `protocols` (the first one that the client offers, in our order of preference).
std::optional<net::HttpHeaders> AcceptWebSocket(const net::ServerRequest& request,
                                                const std::vector<std::string>& protocols);

struct WebSocketFrame {
  enum class Kind : std::uint8_t {
    kContinuation = 0,
    kText = 1,
    kBinary = 2,
    kClose = 8,
    kPing = 9,
    kPong = 10
  };
  Kind kind = Kind::kBinary;
  bool last = true;
  std::string payload;
};

// Cuts frames out of a stream of bytes, however they fall. Clients' frames are masked.
class WebSocketParser {
 public:
  explicit WebSocketParser(std::size_t limit) : limit_(limit) {}
  void Feed(std::string_view bytes) { rest_ += bytes; }
  // The next whole frame, or nullopt if more bytes are needed. kInvalid for what RFC 6455 forbids
  // or a payload over the limit.
  Result<std::optional<WebSocketFrame>> Next();

 private:
  const std::size_t limit_;
  std::string rest_;
};

std::string EncodeFrame(WebSocketFrame::Kind kind, std::string_view payload);

// Whole messages. Send is thread-safe, Receive is for one thread.
class WebSocket {
 public:
  explicit WebSocket(std::shared_ptr<net::UpgradedConnection> connection)
      : connection_(std::move(connection)), parser_(1 << 20) {}

  Result<void> Send(std::string_view message);
  // The next message; pings are answered on the way. kCancelled when the client has closed.
  Result<std::string> Receive(const Context& ctx);
  void Close();

 private:
  std::shared_ptr<net::UpgradedConnection> connection_;
  WebSocketParser parser_;
  Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace paddleop::standalone::node
