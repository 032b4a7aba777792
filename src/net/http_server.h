#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/status.h"
#include "net/http.h"
#include "net/tls.h"

namespace paddleop::net {

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;        // 0: any free port
  std::string unix_socket = {};  // listen here instead of on TCP; only its owner may connect
  ServerTls tls = {};
  std::size_t io_threads = 2;
  std::size_t handler_threads = 8;         // handlers may block; streams do not hold one
  std::size_t max_queued_requests = 1024;  // waiting for a handler thread; further ones get 503
  std::size_t max_connections = 4096;
  std::size_t max_header_bytes = 64 << 10;
  std::size_t max_body_bytes = 16 << 20;
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte to the end of the header
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{120'000};
  // A reader that takes nothing for this long is cut off.
  std::chrono::milliseconds write_timeout{60'000};
  std::size_t max_stream_buffer = 4 << 20;  // unsent bytes of one stream before Write waits
  // Borrowed, if given: metrics.h says what is counted; the log tells of certificates that cannot
  // be read again.
  MetricsRegistry* metrics = nullptr;
  const Logger* log = nullptr;
};

// What a handler sees of a request.
struct ServerRequest {
  std::string method = {};
  std::string target = {};  // as sent: path and query, still percent-encoded
  std::string path = {};    // decoded
  std::string query = {};   // still encoded
  HttpHeaders headers = {};
  std::string body = {};
  std::string remote = {};       // address of the peer
  std::string client_name = {};  // common name of a verified client certificate

  // The decoded value of a query parameter, or nullopt.
  std::optional<std::string> Query(std::string_view name) const;
};

// A response whose body is written over time: watches, logs. Thread-safe; may outlive the handler.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;
  // Queues bytes, waiting while more than the buffer limit is unsent. kCancelled when the client or
  // the server has gone: stop producing.
  virtual Result<void> Write(std::string_view bytes) = 0;
  // As Write, but never waits: kUnavailable when the buffer is full.
  virtual Result<void> TryWrite(std::string_view bytes) = 0;
  // Ends the body. Destroying the last reference does the same.
  virtual void Close() = 0;
  virtual bool Closed() const = 0;
  // Called once when the client goes away or the server stops, from a server thread, so it must not
  // block; at once if it is already so.
  virtual void OnClose(std::function<void()> callback) = 0;
};

// The bare connection after "101 Switching Protocols": what is written goes out as it is, what the
// client sends is read here. Frames (WebSocket's, say) are the handler's business.
class UpgradedConnection : public ResponseStream {
 public:
  // At least one byte; 0 when the client has closed. One reader at a time.
  virtual Result<std::size_t> Read(const Context& ctx, std::span<char> out) = 0;
};

// At most one of body, stream and upgrade is used. Length, transfer encoding and connection headers
// are the server's business, except that a stream of known size may carry a Content-Length.
struct ServerResponse {
  int status = 200;
  HttpHeaders headers = {};
  std::string body = {};
  // If set, the status and headers are sent at once and the body is what is written to the stream.
  // Called on the handler's thread, which it may keep or leave.
  std::function<void(std::shared_ptr<ResponseStream>)> stream = {};
  // As `stream`, for a response with status 101; `headers` must have Connection and Upgrade.
  std::function<void(std::shared_ptr<UpgradedConnection>)> upgrade = {};

  static ServerResponse Text(int status, std::string body);
  static ServerResponse Json(int status, std::string body);
};

// An HTTP/1.1 server: asynchronous inside, so that thousands of idle connections and open streams
// cost no thread; handlers run on a bounded pool and may block. Requests over a limit are answered
// 400, 408, 413, 431 or 503 and counted.
class HttpServer {
 public:
  // The context stops when the client closes the connection or the server's grace is over.
  using Handler = std::function<ServerResponse(const Context& ctx, const ServerRequest& request)>;

  // Listens before it returns. kUnavailable or kPermission name the address that could not be
  // bound.
  static Result<std::unique_ptr<HttpServer>> Start(HttpServerOptions options, Handler handler);

  virtual ~HttpServer() = default;
  virtual std::uint16_t port() const = 0;
  // Stops accepting, lets requests in flight finish within `grace`, closes streams, joins.
  // Idempotent; the destructor calls it with one second.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
  virtual std::size_t open_connections() const = 0;
};

}  // namespace paddleop::net
