#include "net/http_server.h"

#include <algorithm>

#include "base/crypto.h"
#include "net/internal/listen_socket.h"
#include "net/internal/server.h"
#include "net/internal/server_tls.h"

namespace paddleop::net {
namespace {

Result<void> Validate(const HttpServerOptions& options) {
  const auto positive = [](std::size_t value, std::string_view name) -> Result<void> {
    if (value > 0) return {};
    return Fail(Code::kInvalid, "HTTP server: {} must be at least 1", name);
  };
  RETURN_IF_ERROR(positive(options.io_threads, "io_threads"));
  RETURN_IF_ERROR(positive(options.handler_threads, "handler_threads"));
  RETURN_IF_ERROR(positive(options.max_queued_requests, "max_queued_requests"));
  RETURN_IF_ERROR(positive(options.max_connections, "max_connections"));
  RETURN_IF_ERROR(positive(options.max_stream_buffer, "max_stream_buffer"));
  if (options.max_header_bytes < 256 || options.max_header_bytes > (16 << 20)) {
    return Fail(Code::kInvalid, "HTTP server: max_header_bytes must be from 256 B to 16 MiB");
  }
  const auto shortest = std::min(
      {options.header_timeout, options.body_timeout, options.idle_timeout, options.write_timeout});
  if (shortest <= std::chrono::milliseconds(0)) {
    return Fail(Code::kInvalid, "HTTP server: every timeout must be positive");
  }
  return {};
}

}  // namespace

std::optional<std::string> ServerRequest::Query(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('&'), rest.size());
    std::string pair(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    std::ranges::replace(pair, '+', ' ');
    const auto eq = std::min(pair.find('='), pair.size());
    const auto key = UrlDecode(std::string_view(pair).substr(0, eq));
    if (!key || *key != name) continue;
    if (eq == pair.size()) return "";
    auto value = UrlDecode(std::string_view(pair).substr(eq + 1));
    if (value) return *std::move(value);
  }
  return std::nullopt;
}

ServerResponse ServerResponse::Text(int status, std::string body) {
  return {.status = status,
          .headers = {{"Content-Type", "text/plain; charset=utf-8"}},
          .body = std::move(body)};
}

ServerResponse ServerResponse::Json(int status, std::string body) {
  return {
      .status = status, .headers = {{"Content-Type", "application/json"}}, .body = std::move(body)};
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options, Handler handler) {
  RETURN_IF_ERROR(Validate(options));
  std::unique_ptr<internal::ServerTlsSource> tls;
  if (options.tls.enabled()) {
    ASSIGN_OR_RETURN(tls, internal::ServerTlsSource::Open(options.tls, options.log));
  }
  ASSIGN_OR_RETURN(auto socket, internal::OpenListenSocket(options));
  return std::make_unique<internal::Server>(std::move(options), std::move(handler),
                                            std::move(socket), std::move(tls));
}

}  // namespace paddleop::net
