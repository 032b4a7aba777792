#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/context.h"
#include "net/http.h"
#include "net/tls.h"

namespace paddleop::net {

struct HttpClientOptions {
  ClientTls tls = {};
  std::string unix_socket = {};  // connect here whatever the URL's host says
  std::string user_agent = "paddle-operator";
  std::chrono::milliseconds connect_timeout{10'000};
  // A transfer that moves no byte for this long has stalled: kUnavailable. Zero: only the deadline
  // ends it (for watches).
  std::chrono::milliseconds stall_timeout{30'000};
  // For calls whose context has no deadline: every remote call ends.
  std::chrono::milliseconds default_timeout{120'000};
  std::size_t max_connections_per_host = 64;  // further calls wait for one within their deadline
  std::size_t max_response_bytes = 64 << 20;  // of a body kept in memory; more is kInvalid
  std::size_t max_header_bytes = 256 << 10;
  bool http2 = false;  // offer HTTP/2 by ALPN on https
  bool follow_redirects = false;
};

// An HTTP/1.1 and HTTP/2 client with pooled connections.
//
// Thread-safe. Any HTTP status is success at this level: the Result is an error only when no whole
// response was had. Codes: kUnavailable (refused, reset, closed early, stalled), kDeadline,
// kCancelled, kPermission (TLS verification), kInvalid (bad URL, response over a limit, malformed
// response). An error with maybe_done() means that the request may have reached the server; its
// message ends with "sent: yes" or "sent: no".
// Nothing is retried here, except on a pooled connection that the server had closed: always when
// that was seen before sending, else once and only for GET, HEAD, PUT, DELETE and OPTIONS without a
// body_source. Redirects, where they are followed, are followed for GET and HEAD.
// Proxies are taken from the environment as by any program, but never for loopback addresses.
class HttpClient {
 public:
  static Result<std::unique_ptr<HttpClient>> Create(HttpClientOptions options = {});
  virtual ~HttpClient() = default;

  // The whole body in response.body.
  virtual Result<HttpResponse> Do(const Context& ctx, HttpRequest request) = 0;

  // The body of a 2xx response into `out`, without a copy in between; `*received` is its size. A
  // body larger than `out` is kInvalid. Bodies of other statuses go to response.body.
  virtual Result<HttpResponse> DoInto(const Context& ctx, HttpRequest request,
                                      std::span<std::byte> out, std::size_t* received) = 0;

  // The body of a 2xx response to `sink`, piece by piece on the calling thread; other statuses go
  // to response.body. `on_headers`, if given, is called once before the first piece.
  virtual Result<HttpResponse> Stream(
      const Context& ctx, HttpRequest request, const BodySink& sink,
      const std::function<void(const HttpResponse&)>& on_headers = {}) = 0;

  // As Do, but returns at once; `done` is called from the client's own thread and must not block.
  // Every started request is completed exactly once, also when the client is destroyed
  // (kCancelled).
  using Done = std::function<void(Result<HttpResponse>)>;
  virtual void Start(const Context& ctx, HttpRequest request, Done done) = 0;

  // As DoInto, but returns at once, as Start does. `out` and `received` must live until `done`.
  // A client that does not override it copies the body.
  virtual void StartInto(const Context& ctx, HttpRequest request, std::span<std::byte> out,
                         std::size_t* received, Done done);
};

}  // namespace paddleop::net
