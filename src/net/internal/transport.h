#pragma once

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/posix.h"

namespace boost::asio::ssl {
class context;
}

namespace paddleop::net::internal {

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using IoError = boost::system::error_code;

// One connection as a session sees it, plain or TLS, over TCP or a unix socket. All calls and all
// callbacks are on the connection's strand; at most one read and one write at a time.
class Transport {
 public:
  using Done = std::move_only_function<void(IoError, std::size_t)>;
  static constexpr std::size_t kMaxPieces = 3;
  using Pieces = std::array<std::string_view, kMaxPieces>;

  virtual ~Transport() = default;

  virtual void Handshake(Done done) = 0;
  virtual void ReadSome(std::span<char> into, Done done) = 0;
  // Writes a beginning of the pieces, one after the other.
  virtual void WriteSome(const Pieces& pieces, Done done) = 0;
  // Says that nothing more will be written.
  virtual void ShutdownWrite(Done done) = 0;
  // Ends what is under way with an error and closes the socket.
  virtual void Close() = 0;

  // The common name of the client's verified certificate, once shaken hands.
  virtual std::string ClientName() const = 0;
};

// `fd` is a connected, non-blocking socket of the address family.
std::unique_ptr<Transport> MakePlainTransport(const Strand& strand, int family, UniqueFd fd);
std::unique_ptr<Transport> MakeTlsTransport(const Strand& strand, int family, UniqueFd fd,
                                            std::shared_ptr<boost::asio::ssl::context> context);

}  // namespace paddleop::net::internal
