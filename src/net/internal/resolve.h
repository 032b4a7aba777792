#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/status.h"

namespace paddleop::net::internal {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

// The addresses of a host, in the order to try them. Returns at the context's deadline or stop even
// when the name server does not answer.
Result<std::vector<Address>> Resolve(const Context& ctx, const std::string& host,
                                     std::uint16_t port);

// The address of a unix socket. kInvalid when the path does not fit into one.
Result<Address> UnixAddress(const std::string& path);

}  // namespace paddleop::net::internal
