#include "net/internal/server_tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>

namespace paddleop::net::internal {
namespace {

constexpr std::chrono::seconds kLookInterval(1);

std::unexpected<Status> TlsFail(std::string_view what, const std::string& file,
                                const boost::system::error_code& error) {
  // OpenSSL reports a file that is not there and one that is no PEM alike.
  if (StampOf(file) == FileStamp{}) {
    return Fail(Code::kNotFound, "TLS: {} file {} is not there or not readable", what, file);
  }
  return Fail(Code::kInvalid, "TLS: {} file {}: {}", what, file, error.message());
}

}  // namespace

ServerTlsSource::ServerTlsSource(ServerTls tls, const Logger* log)
    : tls_(std::move(tls)), log_(log) {}

ServerTlsSource::~ServerTlsSource() = default;

Result<std::unique_ptr<ServerTlsSource>> ServerTlsSource::Open(ServerTls tls, const Logger* log) {
  if (tls.key_file.empty()) {
    return Fail(Code::kInvalid, "TLS: certificate {} is given without a key file", tls.cert_file);
  }
  std::unique_ptr<ServerTlsSource> source(new ServerTlsSource(std::move(tls), log));
  const MutexLock lock(source->mutex_);
  source->stamps_ = source->Stamps();
  ASSIGN_OR_RETURN(source->current_, source->Load());
  return source;
}

std::array<FileStamp, 3> ServerTlsSource::Stamps() const {
  return {StampOf(tls_.cert_file), StampOf(tls_.key_file), StampOf(tls_.client_ca_file)};
}

Result<std::shared_ptr<ServerTlsSource::SslContext>> ServerTlsSource::Load() const {
  auto context = std::make_shared<SslContext>(SslContext::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  boost::system::error_code error;
  context->use_certificate_chain_file(tls_.cert_file, error);
  if (error) return TlsFail("certificate", tls_.cert_file, error);
  context->use_private_key_file(tls_.key_file, SslContext::pem, error);
  if (error) return TlsFail("key", tls_.key_file, error);
  if (SSL_CTX_check_private_key(native) != 1) {
    ERR_clear_error();
    return Fail(Code::kInvalid, "TLS: key {} does not belong to certificate {}", tls_.key_file,
                tls_.cert_file);
  }
  if (!tls_.client_ca_file.empty()) {
    context->load_verify_file(tls_.client_ca_file, error);
    if (error) return TlsFail("client CA", tls_.client_ca_file, error);
    SSL_CTX_set_client_CA_list(native, SSL_load_client_CA_file(tls_.client_ca_file.c_str()));
    SSL_CTX_set_verify(native, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    // A resumed session would carry a certificate past the CA that no longer vouches for it.
    SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(native, SSL_OP_NO_TICKET);
  }
  return context;
}

std::shared_ptr<ServerTlsSource::SslContext> ServerTlsSource::Current() {
  const MutexLock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return current_;
  next_look_ = now + kLookInterval;
  const auto stamps = Stamps();
  if (stamps == stamps_) return current_;
  stamps_ = stamps;
  if (auto loaded = Load()) {
    current_ = *std::move(loaded);
  } else if (log_ != nullptr) {
    log_->Warn(Context::Background(), "new certificate cannot be used, the old one stays",
               {{"error", loaded.error().message()}});
  }
  return current_;
}

}  // namespace paddleop::net::internal
