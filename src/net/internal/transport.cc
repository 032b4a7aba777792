#include "net/internal/transport.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/stream.hpp>

namespace paddleop::net::internal {
namespace {

namespace asio = boost::asio;
using asio::generic::stream_protocol;
// Named in full: the default executor would add a layer of type erasure to every operation.
using StrandSocket = asio::basic_stream_socket<stream_protocol, Strand>;

StrandSocket Adopt(const Strand& strand, int family, UniqueFd fd) {
  const stream_protocol protocol(family, family == AF_UNIX ? 0 : IPPROTO_TCP);
  return StrandSocket(strand, protocol, fd.Release());
}

using ConstBuffers = std::array<asio::const_buffer, Transport::kMaxPieces>;

ConstBuffers BuffersOf(const Transport::Pieces& pieces) {
  ConstBuffers buffers;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    buffers[i] = asio::const_buffer(pieces[i].data(), pieces[i].size());
  }
  return buffers;
}

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(StrandSocket socket) : socket_(std::move(socket)) {}

  void Handshake(Done done) override { done({}, 0); }
  void ReadSome(std::span<char> into, Done done) override {
    socket_.async_read_some(asio::buffer(into.data(), into.size()), std::move(done));
  }
  void WriteSome(const Pieces& pieces, Done done) override {
    socket_.async_write_some(BuffersOf(pieces), std::move(done));
  }
  void ShutdownWrite(Done done) override {
    IoError error;
    socket_.shutdown(StrandSocket::shutdown_send, error);
    done(error, 0);
  }
  void Close() override {
    IoError ignored;
    socket_.close(ignored);
  }
  std::string ClientName() const override { return ""; }

 private:
  StrandSocket socket_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(StrandSocket socket, std::shared_ptr<asio::ssl::context> context)
      : context_(std::move(context)), stream_(std::move(socket), *context_) {}

  void Handshake(Done done) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [done = std::move(done)](IoError error) mutable { done(error, 0); });
  }
  void ReadSome(std::span<char> into, Done done) override {
    stream_.async_read_some(asio::buffer(into.data(), into.size()), std::move(done));
  }
  void WriteSome(const Pieces& pieces, Done done) override {
    stream_.async_write_some(BuffersOf(pieces), std::move(done));
  }
  void ShutdownWrite(Done done) override {
    stream_.async_shutdown([done = std::move(done)](IoError error) mutable { done(error, 0); });
  }
  void Close() override {
    IoError ignored;
    stream_.lowest_layer().close(ignored);
  }
  std::string ClientName() const override {
    auto* const ssl = const_cast<asio::ssl::stream<StrandSocket>&>(stream_).native_handle();
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl),
                                                                  &X509_free);
    if (!certificate || SSL_get_verify_result(ssl) != X509_V_OK) return "";
    std::array<char, 256> name{};
    const int length =
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName,
                                  name.data(), static_cast<int>(name.size()));
    return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : "";
  }

 private:
  const std::shared_ptr<asio::ssl::context> context_;
  asio::ssl::stream<StrandSocket> stream_;
};

}  // namespace

std::unique_ptr<Transport> MakePlainTransport(const Strand& strand, int family, UniqueFd fd) {
  return std::make_unique<PlainTransport>(Adopt(strand, family, std::move(fd)));
}

std::unique_ptr<Transport> MakeTlsTransport(const Strand& strand, int family, UniqueFd fd,
                                            std::shared_ptr<asio::ssl::context> context) {
  return std::make_unique<TlsTransport>(Adopt(strand, family, std::move(fd)), std::move(context));
}

}  // namespace paddleop::net::internal
