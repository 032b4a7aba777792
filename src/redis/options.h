#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "base/status.h"
#include "net/tls.h"
#include "redis/reply_parser.h"

namespace paddleop::redis {

// Which server, as whom, and how long to wait for it.
struct ConnectionOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  std::string unix_socket;  // instead of host and port
  bool use_tls = false;
  net::ClientTls tls;

  std::string user;  // empty: the default user
  Secret password;
  int database = 0;
  std::string client_name = "paddle-operator";  // as CLIENT LIST shows it; empty: none

  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds read_timeout{30'000};  // longest silence while a reply is awaited
  std::chrono::milliseconds write_timeout{5'000};  // longest time in which the server takes nothing
  // For calls whose context has no deadline: every call ends.
  std::chrono::milliseconds default_timeout{120'000};
  ReplyLimits limits;

  // host:port or the path of the socket: what messages say, never a secret.
  std::string Address() const;
  // kInvalid names the field.
  Result<void> Validate() const;
};

}  // namespace paddleop::redis
