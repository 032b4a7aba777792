#include "net/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/clock.h"
#include "net/internal/resolve.h"
#include "net/internal/socket.h"
#include "net/internal/tls_stream.h"

namespace paddleop::net {
namespace {

using internal::Address;
using internal::Socket;

class PlainStream final : public Stream {
 public:
  explicit PlainStream(std::unique_ptr<Socket> socket) : socket_(std::move(socket)) {}

  Result<std::size_t> Read(const Context& ctx, std::span<char> out) override {
    RETURN_IF_ERROR(socket_->Check(ctx));
    // A full buffer last time means there is probably more: ask for it at once. Otherwise we most
    // likely come before the answer, and asking first would only cost another call.
    if (!expect_more_) RETURN_IF_ERROR(socket_->Wait(ctx, POLLIN));
    for (;;) {
      const ssize_t n = ::recv(socket_->fd(), out.data(), out.size(), 0);
      if (n >= 0) {
        expect_more_ = static_cast<std::size_t>(n) == out.size();
        return static_cast<std::size_t>(n);
      }
      if (errno == EAGAIN) {
        RETURN_IF_ERROR(socket_->Wait(ctx, POLLIN));
      } else if (errno != EINTR) {
        return socket_->Failed("read from", errno);
      }
    }
  }

  Result<void> WriteAll(const Context& ctx, std::string_view bytes) override {
    RETURN_IF_ERROR(socket_->Check(ctx));
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN) {
        RETURN_IF_ERROR(socket_->Wait(ctx, POLLOUT));
      } else if (errno != EINTR) {
        return socket_->Failed("write to", errno);
      }
    }
    return {};
  }

  void Shutdown() override { socket_->Shutdown(); }
  bool Stale() const override { return !socket_->Quiet(); }

 private:
  std::unique_ptr<Socket> socket_;
  bool expect_more_ = false;
};

std::string PeerName(const DialOptions& options) {
  if (!options.unix_socket.empty()) return options.unix_socket;
  if (options.host.contains(':')) return fmt::format("[{}]:{}", options.host, options.port);
  return fmt::format("{}:{}", options.host, options.port);
}

// A full backlog refuses non-blocking connects to unix sockets with EAGAIN and no way to wait for
// room.
Result<void> ConnectUnix(const Context& ctx, const Socket& socket, const Address& address) {
  for (;;) {
    if (::connect(socket.fd(), address.get(), address.length) == 0) return {};
    if (errno != EAGAIN && errno != EINTR) return socket.Failed("connect to", errno);
    if (!Clock::System().SleepFor(ctx, std::chrono::milliseconds(2))) {
      if (ctx.Stopped()) return Fail(Code::kCancelled, "connect to {}: stopped", socket.peer());
      return Fail(Code::kDeadline, "connect to {}: its backlog is full", socket.peer());
    }
  }
}

Result<void> ConnectTcp(const Context& ctx, Socket& socket, const Address& address) {
  RETURN_IF_ERROR(socket.Check(ctx));
  if (::connect(socket.fd(), address.get(), address.length) != 0) {
    if (errno != EINPROGRESS) return socket.Failed("connect to", errno);
    RETURN_IF_ERROR(socket.Wait(ctx, POLLOUT));
    int error = 0;
    socklen_t size = sizeof(error);
    if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return socket.Failed("connect to", error);
  }
  // Requests are written whole, so waiting for more to send only adds delay. Keep-alive notices a
  // peer that vanished without a word. Neither is worth failing for.
  const int on = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  return {};
}

Result<std::unique_ptr<Socket>> ConnectTo(const Context& ctx, const Address& address,
                                          const std::string& peer) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoFail("socket for {}", peer);
  ASSIGN_OR_RETURN(auto socket, Socket::Adopt(std::move(fd), peer));
  if (address.family() == AF_UNIX) {
    RETURN_IF_ERROR(ConnectUnix(ctx, *socket, address));
  } else {
    RETURN_IF_ERROR(ConnectTcp(ctx, *socket, address));
  }
  return socket;
}

// Each address in turn gets its share of the time, so that one that swallows packets does not use
// up that of the others.
Result<std::unique_ptr<Socket>> ConnectAny(const Context& ctx,
                                           const std::vector<Address>& addresses,
                                           const std::string& peer) {
  std::optional<Status> first_failure;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto share = ctx.Remaining() / static_cast<std::int64_t>(addresses.size() - i);
    auto socket = ConnectTo(ctx.WithTimeout(share), addresses[i], peer);
    if (socket) return socket;
    if (!first_failure) first_failure = socket.error();
    if (ctx.Stopped() || ctx.Expired()) return socket;
  }
  return std::unexpected(*std::move(first_failure));
}

Result<std::unique_ptr<Stream>> DialBefore(const Context& ctx, const DialOptions& options) {
  const std::string peer = PeerName(options);
  std::vector<Address> addresses;
  if (!options.unix_socket.empty()) {
    ASSIGN_OR_RETURN(const Address address, internal::UnixAddress(options.unix_socket));
    addresses.push_back(address);
  } else {
    auto found = internal::Resolve(ctx, options.host, options.port);
    if (!found) return std::unexpected(std::move(found).error().Wrap("connect to " + peer));
    addresses = *std::move(found);
  }
  ASSIGN_OR_RETURN(auto socket, ConnectAny(ctx, addresses, peer));
  if (!options.use_tls) return std::unique_ptr<Stream>(new PlainStream(std::move(socket)));
  return internal::StartTls(ctx, std::move(socket), options.tls, options.host);
}

}  // namespace

Result<std::unique_ptr<Stream>> Dial(const Context& ctx, const DialOptions& options) {
  if (options.unix_socket.empty() && (options.host.empty() || options.port == 0)) {
    return Fail(Code::kInvalid, "connect to {}: a host and a port, or a unix socket, are needed",
                PeerName(options));
  }
  auto stream = DialBefore(ctx.WithTimeout(options.connect_timeout), options);
  // The connect timeout is ours, not the caller's: time is left for another attempt.
  if (!stream && stream.error().code() == Code::kDeadline && !ctx.Expired()) {
    return Fail(Code::kUnavailable, "connect to {}: no answer within {} ms", PeerName(options),
                options.connect_timeout.count());
  }
  return stream;
}

}  // namespace paddleop::net
