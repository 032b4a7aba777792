#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/status.h"
#include "net/tls.h"

namespace paddleop::net {

// A connected byte stream: TCP, TLS over TCP, or a unix socket. Blocking with a deadline: each call
// ends when the data is there, the context's deadline passes (kDeadline) or its caller stops
// (kCancelled). After any error the stream is unusable.
//
// One thread may read while another one writes; otherwise not thread-safe, except Shutdown().
class Stream {
 public:
  virtual ~Stream() = default;

  // At least one byte; 0 when the peer has closed.
  virtual Result<std::size_t> Read(const Context& ctx, std::span<char> out) = 0;
  virtual Result<void> WriteAll(const Context& ctx, std::string_view bytes) = 0;
  // Makes calls in other threads return kCancelled.
  virtual void Shutdown() = 0;
  // True if the peer has closed or sent bytes that nobody asked for: a pooled stream to throw away.
  virtual bool Stale() const = 0;
};

struct DialOptions {
  std::string host;
  std::uint16_t port = 0;
  std::string unix_socket;  // instead of host and port
  bool use_tls = false;
  ClientTls tls;
  std::chrono::milliseconds connect_timeout{5'000};
};

// Connects, trying every address of the host in turn. kUnavailable names host and port.
Result<std::unique_ptr<Stream>> Dial(const Context& ctx, const DialOptions& options);

}  // namespace paddleop::net
