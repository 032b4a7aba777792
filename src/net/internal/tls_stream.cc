#include "net/internal/tls_stream.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/mutex.h"
#include "base/posix.h"

namespace paddleop::net::internal {
namespace {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using SslContext = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using SslSession = std::unique_ptr<SSL, Free<SSL_free>>;
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

// OpenSSL's own socket BIO uses write(2), which raises SIGPIPE when the peer has gone.
int BioWrite(BIO* bio, const char* data, std::size_t size, std::size_t* written) {
  BIO_clear_retry_flags(bio);
  const int fd = static_cast<Socket*>(BIO_get_data(bio))->fd();
  const ssize_t n = ::send(fd, data, size, MSG_NOSIGNAL);
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) BIO_set_retry_write(bio);
    return 0;
  }
  *written = static_cast<std::size_t>(n);
  return 1;
}

int BioRead(BIO* bio, char* out, std::size_t size, std::size_t* got) {
  BIO_clear_retry_flags(bio);
  const int fd = static_cast<Socket*>(BIO_get_data(bio))->fd();
  const ssize_t n = ::recv(fd, out, size, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  if (n <= 0) return 0;
  *got = static_cast<std::size_t>(n);
  return 1;
}

long BioControl(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

BIO_METHOD* SocketBioMethod() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "paddleop socket");
    BIO_meth_set_write_ex(m, BioWrite);
    BIO_meth_set_read_ex(m, BioRead);
    BIO_meth_set_ctrl(m, BioControl);
    return m;
  }();
  return method;
}

// The newest entry of OpenSSL's error queue, or `otherwise` if it is empty.
std::string LibraryError(std::string_view otherwise) {
  const unsigned long error = ERR_peek_last_error();
  if (error == 0) return std::string(otherwise);
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : fmt::format("error {:#x}", error);
}

// The PEM text of a setting that can be given as text or as a file; empty if it is not given.
Result<std::string> PemOf(const std::string& pem, const std::string& file) {
  if (!pem.empty() || file.empty()) return pem;
  return ReadFile(file, 4 << 20);
}

std::string SourceOf(const std::string& pem, const std::string& file, std::string_view what) {
  return pem.empty() ? fmt::format("{} {}", what, file) : fmt::format("{} (given as text)", what);
}

Bio MemoryBio(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<void> TrustRoots(SSL_CTX* context, const ClientTls& tls) {
  ASSIGN_OR_RETURN(const std::string pem, PemOf(tls.ca_pem, tls.ca_file));
  if (pem.empty() && tls.ca_file.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) == 1) return {};
    return Fail(Code::kInternal, "load the system's certificate roots: {}", LibraryError("failed"));
  }
  const Bio bio = MemoryBio(pem);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  int count = 0;
  while (Certificate root{PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr)}) {
    if (X509_STORE_add_cert(store, root.get()) != 1) break;
    ++count;
  }
  ERR_clear_error();
  if (count == 0) {
    return Fail(Code::kInvalid, "{} holds no certificate in PEM form",
                SourceOf(tls.ca_pem, tls.ca_file, "CA file"));
  }
  return {};
}

// Never asks on the terminal: keys with a password are not supported.
int NoPassword(char*, int, int, void*) { return -1; }

Result<void> ShowCertificate(SSL_CTX* context, const ClientTls& tls) {
  ASSIGN_OR_RETURN(const std::string cert_pem, PemOf(tls.cert_pem, tls.cert_file));
  ASSIGN_OR_RETURN(const std::string key_pem, PemOf(tls.key_pem.Reveal(), tls.key_file));
  if (cert_pem.empty() && key_pem.empty()) return {};
  const std::string cert_name = SourceOf(tls.cert_pem, tls.cert_file, "client certificate");
  const std::string key_name = SourceOf(tls.key_pem.Reveal(), tls.key_file, "client key");

  const Bio cert_bio = MemoryBio(cert_pem);
  const Certificate leaf(PEM_read_bio_X509_AUX(cert_bio.get(), nullptr, nullptr, nullptr));
  if (!leaf || SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return Fail(Code::kInvalid, "{}: {}", cert_name, LibraryError("no certificate"));
  }
  while (Certificate link{PEM_read_bio_X509(cert_bio.get(), nullptr, nullptr, nullptr)}) {
    if (SSL_CTX_add0_chain_cert(context, link.get()) != 1) break;
    [[maybe_unused]] X509* const owned_by_context = link.release();
  }
  ERR_clear_error();

  const Bio key_bio = MemoryBio(key_pem);
  const PrivateKey key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, NoPassword, nullptr));
  if (!key) {
    return Fail(Code::kInvalid, "{}: no unencrypted private key in PEM form ({})", key_name,
                LibraryError("empty"));
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return Fail(Code::kInvalid, "{} does not belong to {}: {}", key_name, cert_name,
                LibraryError("mismatch"));
  }
  return {};
}

// Built for every connection, so that rotated files take effect on the next one.
Result<SslContext> MakeContext(const ClientTls& tls) {
  ERR_clear_error();
  SslContext context(SSL_CTX_new(TLS_client_method()));
  if (!context) return Fail(Code::kInternal, "TLS: {}", LibraryError("no context"));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  if (tls.insecure_skip_verify) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  } else {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    RETURN_IF_ERROR(TrustRoots(context.get(), tls));
  }
  RETURN_IF_ERROR(ShowCertificate(context.get(), tls));
  return context;
}

bool IsAddress(const std::string& host) {
  unsigned char raw[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), raw) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), raw) == 1;
}

Result<void> ExpectName(SSL* ssl, const std::string& name) {
  X509_VERIFY_PARAM* const param = SSL_get0_param(ssl);
  if (IsAddress(name)) {
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name.c_str()) == 1) return {};
  } else {
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_host(param, name.c_str(), name.size()) == 1 &&
        SSL_set_tlsext_host_name(ssl, name.c_str()) == 1) {
      return {};
    }
  }
  return Fail(Code::kInvalid, "{} cannot be the name in a certificate", name);
}

// Whether the peer closed the conversation because of who we are.
bool IsCertificateAlert(unsigned long error) {
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return false;
  switch (ERR_GET_REASON(error)) {
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_NO_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return true;
    default:
      return false;
  }
}

class TlsStream final : public Stream {
 public:
  TlsStream(std::unique_ptr<Socket> socket, SslSession ssl)
      : socket_(std::move(socket)), ssl_(std::move(ssl)) {}

  ~TlsStream() override {
    // Says goodbye if that needs no waiting; after an error OpenSSL forbids it.
    if (!broken_ && SSL_is_init_finished(ssl_.get()) == 1) SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }

  Result<void> Handshake(const Context& ctx) {
    for (;;) {
      const Outcome outcome = Try([this] { return SSL_connect(ssl_.get()); });
      if (outcome.done == 1) return {};
      const long verdict = SSL_get_verify_result(ssl_.get());
      if (outcome.error == SSL_ERROR_SSL && verdict != X509_V_OK) {
        broken_ = true;
        return Fail(Code::kPermission, "TLS with {}: its certificate is not accepted: {}",
                    socket_->peer(), X509_verify_cert_error_string(verdict));
      }
      RETURN_IF_ERROR(WaitAfter(ctx, "TLS handshake with", outcome));
    }
  }

  Result<std::size_t> Read(const Context& ctx, std::span<char> out) override {
    RETURN_IF_ERROR(socket_->Check(ctx));
    for (;;) {
      std::size_t got = 0;
      const Outcome outcome =
          Try([&] { return SSL_read_ex(ssl_.get(), out.data(), out.size(), &got); });
      if (outcome.done == 1) return got;
      if (outcome.error == SSL_ERROR_ZERO_RETURN) return 0;
      RETURN_IF_ERROR(WaitAfter(ctx, "read from", outcome));
    }
  }

  Result<void> WriteAll(const Context& ctx, std::string_view bytes) override {
    RETURN_IF_ERROR(socket_->Check(ctx));
    while (!bytes.empty()) {
      std::size_t written = 0;
      const Outcome outcome =
          Try([&] { return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written); });
      if (outcome.done == 1) {
        bytes.remove_prefix(written);
      } else {
        RETURN_IF_ERROR(WaitAfter(ctx, "write to", outcome));
      }
    }
    return {};
  }

  void Shutdown() override { socket_->Shutdown(); }

  bool Stale() const override {
    if (broken_ || SSL_pending(ssl_.get()) > 0) return true;
    if (socket_->Quiet()) return false;
    // TLS 1.3 servers send session tickets unasked; they are not data. Peeking digests them.
    ERR_clear_error();
    char byte = 0;
    std::size_t got = 0;
    const int done = SSL_peek_ex(ssl_.get(), &byte, 1, &got);
    return done == 1 || SSL_get_error(ssl_.get(), done) != SSL_ERROR_WANT_READ;
  }

 private:
  struct Outcome {
    int done = 0;          // what OpenSSL returned
    int error = 0;         // what that means, if it is not 1
    int error_number = 0;  // errno
  };

  // One call of OpenSSL, which never waits. The session belongs to one thread at a time, so that a
  // reader and a writer do not meet in it.
  template <class Call>
  Outcome Try(Call call) {
    MutexLock lock(mutex_);
    ERR_clear_error();
    Outcome outcome;
    outcome.done = call();
    outcome.error_number = errno;
    if (outcome.done != 1) outcome.error = SSL_get_error(ssl_.get(), outcome.done);
    return outcome;
  }

  // After a call that is not done: waits until it is worth repeating, or says why it is not.
  Result<void> WaitAfter(const Context& ctx, std::string_view doing, const Outcome& outcome) {
    const int error_number = outcome.error_number;
    const int error = outcome.error;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      auto waited = socket_->Wait(ctx, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
      if (!waited) broken_ = true;
      return waited;
    }
    broken_ = true;
    const unsigned long reason = ERR_peek_last_error();
    if (error == SSL_ERROR_SYSCALL && reason == 0 && error_number != 0) {
      return socket_->Failed(doing, error_number);
    }
    if (IsCertificateAlert(reason)) {
      return Fail(Code::kPermission, "{} {}: our certificate is not accepted: {}", doing,
                  socket_->peer(), LibraryError("refused"));
    }
    return Fail(Code::kUnavailable, "{} {}: {}", doing, socket_->peer(),
                LibraryError("closed by the peer"));
  }

  std::unique_ptr<Socket> socket_;
  SslSession ssl_;
  Mutex mutex_;  // held for single calls of OpenSSL
  std::atomic<bool> broken_ = false;
};

}  // namespace

Result<std::unique_ptr<Stream>> StartTls(const Context& ctx, std::unique_ptr<Socket> socket,
                                         const ClientTls& tls, const std::string& host) {
  ASSIGN_OR_RETURN(const SslContext context, MakeContext(tls));
  SslSession ssl(SSL_new(context.get()));
  BIO* const bio = BIO_new(SocketBioMethod());
  if (!ssl || bio == nullptr) {
    BIO_free(bio);
    return Fail(Code::kInternal, "TLS: {}", LibraryError("out of memory"));
  }
  BIO_set_data(bio, socket.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  const std::string& name = tls.server_name.empty() ? host : tls.server_name;
  if (!name.empty() && !tls.insecure_skip_verify) RETURN_IF_ERROR(ExpectName(ssl.get(), name));

  auto stream = std::make_unique<TlsStream>(std::move(socket), std::move(ssl));
  RETURN_IF_ERROR(stream->Handshake(ctx));
  return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace paddleop::net::internal
