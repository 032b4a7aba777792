#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/posix.h"
#include "base/status.h"
#include "net/http_server.h"

namespace paddleop::net::internal {

// Which file a name means; no other has the same as long as this one is in use.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// A listening, non-blocking socket.
struct ListenSocket {
  UniqueFd fd;
  int family = 0;
  std::uint16_t port = 0;      // 0 for a unix socket
  std::string unix_path = {};  // to be removed at the end
  FileIdentity unix_file = {};
};

// kUnavailable or kPermission name the address that could not be bound. A unix socket nobody
// listens on any more is replaced.
Result<ListenSocket> OpenListenSocket(const HttpServerOptions& options);

// Removes the name of a unix socket that is still open, unless another server has put its own
// there.
void RemoveUnixSocket(const std::string& path, const FileIdentity& file);

// "127.0.0.1:8080", "[::1]:8080" or "unix" for an accepted socket's address.
std::string PeerName(const sockaddr* address);

}  // namespace paddleop::net::internal
