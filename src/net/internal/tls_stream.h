#pragma once

#include <memory>
#include <string>

#include "base/context.h"
#include "net/internal/socket.h"
#include "net/stream.h"
#include "net/tls.h"

namespace paddleop::net::internal {

// Shakes hands as a client and returns the encrypted stream. `host` is the name or address that the
// certificate must carry unless the options name another. kPermission when one side does not accept
// the other's certificate, kInvalid when our own files are unusable.
Result<std::unique_ptr<Stream>> StartTls(const Context& ctx, std::unique_ptr<Socket> socket,
                                         const ClientTls& tls, const std::string& host);

}  // namespace paddleop::net::internal
