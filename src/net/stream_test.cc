#include "net/stream.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <csignal>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include "base/posix.h"
#include "base/testing/matchers.h"
#include "net/testing/certificates.h"

namespace paddleop::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Listens on loopback or a unix socket and hands the first connection to `serve` on a thread.
class OneShotServer {
 public:
  using Serve = std::function<void(int fd)>;

  explicit OneShotServer(Serve serve, const std::string& unix_path = "") {
    const bool local = !unix_path.empty();
    listener_ = UniqueFd(::socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (local) {
      sockaddr_un name{};
      name.sun_family = AF_UNIX;
      unix_path.copy(name.sun_path, sizeof(name.sun_path) - 1);
      EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
    } else {
      sockaddr_in name{};
      name.sin_family = AF_INET;
      name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
      socklen_t size = sizeof(name);
      EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
      port_ = ntohs(name.sin_port);
    }
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::jthread([this, serve = std::move(serve)] {
      // Only here: that our own side raises no SIGPIPE is part of what is tested.
      sigset_t pipe;
      ::sigemptyset(&pipe);
      ::sigaddset(&pipe, SIGPIPE);
      ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid()) return;
      const int on = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      serve(fd.get());
    });
  }
  // Ends an accept that nobody connected to.
  ~OneShotServer() { ::shutdown(listener_.get(), SHUT_RDWR); }

  DialOptions options() const {
    DialOptions options;
    options.host = "127.0.0.1";
    options.port = port_;
    return options;
  }

 private:
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

void EchoBytes(int fd) {
  char buffer[4096];
  for (ssize_t n = 0; (n = ::recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
    if (!WriteAll(fd, std::string_view(buffer, static_cast<std::size_t>(n)))) return;
  }
}

// Holds the connection without a word until the client closes it.
void Stall(int fd) {
  char byte = 0;
  while (::recv(fd, &byte, 1, 0) > 0) {
  }
}

Result<std::string> ReadExactly(const Context& ctx, Stream& stream, std::size_t size) {
  std::string out(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    ASSIGN_OR_RETURN(const std::size_t n, stream.Read(ctx, std::span(out).subspan(done)));
    if (n == 0) return Fail(Code::kUnavailable, "closed after {} bytes", done);
    done += n;
  }
  return out;
}

Context Soon() { return Context::Background().WithTimeout(10s); }

TEST(StreamTest, EchoesOverTcp) {
  OneShotServer server(EchoBytes);
  auto stream = Dial(Soon(), server.options());
  ASSERT_OK(stream);
  ASSERT_OK((*stream)->WriteAll(Soon(), "hello"));
  auto reply = ReadExactly(Soon(), **stream, 5);
  ASSERT_OK(reply);
  EXPECT_EQ(*reply, "hello");
  EXPECT_FALSE((*stream)->Stale());
}

TEST(StreamTest, FindsHostsByName) {
  OneShotServer server(EchoBytes);
  auto options = server.options();
  options.host = "localhost";
  auto stream = Dial(Soon(), options);
  ASSERT_OK(stream);
  ASSERT_OK((*stream)->WriteAll(Soon(), "x"));
  EXPECT_OK(ReadExactly(Soon(), **stream, 1));
}

TEST(StreamTest, EchoesOverUnixSocket) {
  auto directory = TempDir::Create();
  ASSERT_OK(directory);
  OneShotServer server(EchoBytes, directory->File("s"));
  DialOptions options;
  options.unix_socket = directory->File("s");
  auto stream = Dial(Soon(), options);
  ASSERT_OK(stream);
  ASSERT_OK((*stream)->WriteAll(Soon(), "hello"));
  auto reply = ReadExactly(Soon(), **stream, 5);
  ASSERT_OK(reply);
  EXPECT_EQ(*reply, "hello");
}

TEST(StreamTest, MovesMoreThanTheSocketBuffersHold) {
  OneShotServer server(EchoBytes);
  auto stream = Dial(Soon(), server.options());
  ASSERT_OK(stream);
  std::string sent(8 << 20, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31);
  // Reading and writing at the same time are two streams' worth of state; the echo comes back while
  // the rest is still being written, so the halves take turns.
  std::string got;
  for (std::size_t at = 0; at < sent.size(); at += 64 << 10) {
    ASSERT_OK((*stream)->WriteAll(Soon(), std::string_view(sent).substr(at, 64 << 10)));
    auto piece = ReadExactly(Soon(), **stream, 64 << 10);
    ASSERT_OK(piece);
    got += *piece;
  }
  EXPECT_TRUE(got == sent);
}

TEST(StreamTest, RefusedConnectionNamesThePeer) {
  DialOptions options;
  {
    OneShotServer server(EchoBytes);
    options = server.options();
  }
  const auto stream = Dial(Soon(), options);
  ASSERT_CODE(stream, Code::kUnavailable);
  EXPECT_THAT(stream.error().message(), HasSubstr(fmt::format("127.0.0.1:{}", options.port)));

  DialOptions gone;
  gone.unix_socket = "/nonexistent/socket";
  const auto local = Dial(Soon(), gone);
  ASSERT_CODE(local, Code::kUnavailable);
  EXPECT_THAT(local.error().message(), HasSubstr("/nonexistent/socket"));
}

TEST(StreamTest, RefusesImpossibleOptions) {
  EXPECT_CODE(Dial(Soon(), DialOptions{}), Code::kInvalid);
  DialOptions long_path;
  long_path.unix_socket = "/" + std::string(200, 'x');
  EXPECT_CODE(Dial(Soon(), long_path), Code::kInvalid);
}

TEST(StreamTest, UnknownHostIsUnavailable) {
  DialOptions options;
  options.host = "no-such-host.invalid";
  options.port = 1;
  EXPECT_CODE(Dial(Soon(), options), Code::kUnavailable);
}

TEST(StreamTest, ReadsEndOfStream) {
  OneShotServer server([](int fd) { EXPECT_OK(WriteAll(fd, "bye")); });
  auto stream = Dial(Soon(), server.options());
  ASSERT_OK(stream);
  ASSERT_OK(ReadExactly(Soon(), **stream, 3));
  char byte = 0;
  auto end = (*stream)->Read(Soon(), std::span(&byte, 1));
  ASSERT_OK(end);
  EXPECT_EQ(*end, 0U);
  EXPECT_TRUE((*stream)->Stale());
}

TEST(StreamTest, UnexpectedBytesMakeItStale) {
  std::latch sent(1);
  OneShotServer server([&](int fd) {
    EXPECT_OK(WriteAll(fd, "surprise"));
    sent.count_down();
    Stall(fd);
  });
  auto stream = Dial(Soon(), server.options());
  ASSERT_OK(stream);
  sent.wait();
  const auto deadline = Context::Clock::now() + 10s;
  while (!(*stream)->Stale() && Context::Clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE((*stream)->Stale());
}

TEST(StreamTest, ResetIsUnavailableAndRaisesNoSignal) {
  OneShotServer server([](int fd) {
    const linger now{1, 0};  // close() sends RST
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  });
  auto stream = Dial(Soon(), server.options());
  ASSERT_OK(stream);
  char byte = 0;
  EXPECT_CODE((*stream)->Read(Soon(), std::span(&byte, 1)), Code::kUnavailable);
  EXPECT_CODE((*stream)->WriteAll(Soon(), "x"), Code::kUnavailable);
}

TEST(StreamTest, DeadlineEndsAReadAndAWrite) {
  std::latch over(1);
  // Reads nothing, so that the writer fills the socket buffers and must wait.
  OneShotServer server([&](int) { over.wait(); });
  auto stream = Dial(Soon(), server.options());
  ASSERT_OK(stream);
  char byte = 0;
  const auto start = Context::Clock::now();
  EXPECT_CODE((*stream)->Read(Context::Background().WithTimeout(30ms), std::span(&byte, 1)),
              Code::kDeadline);
  EXPECT_CODE(
      (*stream)->WriteAll(Context::Background().WithTimeout(30ms), std::string(64 << 20, 'x')),
      Code::kDeadline);
  EXPECT_LT(Context::Clock::now() - start, 5s);
  ASSERT_CODE((*stream)->Read(Context::Background().WithDeadline(start), std::span(&byte, 1)),
              Code::kDeadline);
  over.count_down();
}

TEST(StreamTest, StopEndsAWaitingRead) {
  OneShotServer server(Stall);
  auto stream = Dial(Soon(), server.options());
  ASSERT_OK(stream);
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  char byte = 0;
  EXPECT_CODE((*stream)->Read(Soon().WithStop(stop.get_token()), std::span(&byte, 1)),
              Code::kCancelled);
}

TEST(StreamTest, ShutdownEndsAWaitingReadAndAllLaterCalls) {
  OneShotServer server(Stall);
  auto stream = Dial(Soon(), server.options());
  ASSERT_OK(stream);
  std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    (*stream)->Shutdown();
  });
  char byte = 0;
  EXPECT_CODE((*stream)->Read(Soon(), std::span(&byte, 1)), Code::kCancelled);
  EXPECT_CODE((*stream)->Read(Soon(), std::span(&byte, 1)), Code::kCancelled);
  EXPECT_CODE((*stream)->WriteAll(Soon(), "x"), Code::kCancelled);
}

TEST(StreamTest, AStopThatCameTooLateDoesNotDisturbTheNextCall) {
  OneShotServer server(EchoBytes);
  auto stream = Dial(Soon(), server.options());
  ASSERT_OK(stream);
  for (int i = 0; i < 200; ++i) {
    std::stop_source stop;
    ASSERT_OK((*stream)->WriteAll(Soon(), "x"));
    std::jthread stopper([&] { stop.request_stop(); });
    char byte = 0;
    auto read = (*stream)->Read(Soon().WithStop(stop.get_token()), std::span(&byte, 1));
    if (!read) {
      ASSERT_CODE(read, Code::kCancelled);
      ASSERT_OK(ReadExactly(Soon(), **stream, 1));
    }
  }
}

// A TLS server of the plainest kind, on OpenSSL's blocking calls.
class TlsServer {
 public:
  TlsServer(const testing::Certificate& certificate, const std::string& client_ca,
            std::function<void(SSL*)> serve)
      : server_([=](int fd) {
          SSL_CTX* context = SSL_CTX_new(TLS_server_method());
          Load(context, certificate, client_ca);
          SSL* ssl = SSL_new(context);
          SSL_set_fd(ssl, fd);
          if (SSL_accept(ssl) == 1) serve(ssl);
          SSL_free(ssl);
          SSL_CTX_free(context);
          ERR_clear_error();
        }) {}

  DialOptions options(const std::string& ca) const {
    DialOptions options = server_.options();
    options.use_tls = true;
    options.tls.ca_pem = ca;
    return options;
  }

 private:
  static void Load(SSL_CTX* context, const testing::Certificate& certificate,
                   const std::string& client_ca) {
    BIO* bio = BIO_new_mem_buf(certificate.cert_pem.data(), -1);
    X509* cert = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    bio = BIO_new_mem_buf(certificate.key_pem.data(), -1);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    EXPECT_EQ(SSL_CTX_use_certificate(context, cert), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    if (client_ca.empty()) return;
    bio = BIO_new_mem_buf(client_ca.data(), -1);
    X509* ca = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca);
    X509_free(ca);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }

  OneShotServer server_;
};

void TlsEcho(SSL* ssl) {
  char buffer[4096];
  for (int n = 0; (n = SSL_read(ssl, buffer, sizeof(buffer))) > 0;) {
    if (SSL_write(ssl, buffer, n) != n) return;
  }
}

class TlsStreamTest : public ::testing::Test {
 protected:
  testing::CertificateAuthority ca_;
  testing::Certificate certificate_ = ca_.Issue("server", {"127.0.0.1", "redis.test"});
};

TEST_F(TlsStreamTest, EchoesAndIsNotStaleAfterSessionTickets) {
  TlsServer server(certificate_, "", TlsEcho);
  auto stream = Dial(Soon(), server.options(ca_.cert_pem()));
  ASSERT_OK(stream);
  const std::string sent(1 << 20, 'x');
  for (std::size_t at = 0; at < sent.size(); at += 8 << 10) {
    ASSERT_OK((*stream)->WriteAll(Soon(), std::string_view(sent).substr(at, 8 << 10)));
    ASSERT_OK(ReadExactly(Soon(), **stream, 8 << 10));
    EXPECT_FALSE((*stream)->Stale());
  }
}

TEST_F(TlsStreamTest, RefusesAnUnknownAuthorityAndAWrongName) {
  {
    TlsServer server(certificate_, "", TlsEcho);
    const auto stream = Dial(Soon(), server.options(testing::CertificateAuthority().cert_pem()));
    ASSERT_CODE(stream, Code::kPermission);
    EXPECT_THAT(stream.error().message(), HasSubstr("not accepted"));
  }
  {
    TlsServer server(certificate_, "", TlsEcho);
    auto options = server.options(ca_.cert_pem());
    options.tls.server_name = "other.test";
    EXPECT_CODE(Dial(Soon(), options), Code::kPermission);
  }
  {
    TlsServer server(certificate_, "", TlsEcho);
    auto options = server.options(ca_.cert_pem());
    options.tls.server_name = "redis.test";
    EXPECT_OK(Dial(Soon(), options));
  }
  {
    TlsServer server(certificate_, "", TlsEcho);
    auto options = server.options("");
    options.tls.insecure_skip_verify = true;
    EXPECT_OK(Dial(Soon(), options));
  }
}

TEST_F(TlsStreamTest, ShowsAClientCertificateFromFiles) {
  auto directory = TempDir::Create();
  ASSERT_OK(directory);
  const auto client = ca_.Issue("client", {});
  ASSERT_OK(WriteFileAtomic(directory->File("cert"), client.cert_pem));
  ASSERT_OK(WriteFileAtomic(directory->File("key"), client.key_pem));
  ASSERT_OK(WriteFileAtomic(directory->File("ca"), ca_.cert_pem()));
  {
    TlsServer server(certificate_, ca_.cert_pem(), TlsEcho);
    auto options = server.options("");
    options.tls.ca_file = directory->File("ca");
    options.tls.cert_file = directory->File("cert");
    options.tls.key_file = directory->File("key");
    auto stream = Dial(Soon(), options);
    ASSERT_OK(stream);
    ASSERT_OK((*stream)->WriteAll(Soon(), "x"));
    EXPECT_OK(ReadExactly(Soon(), **stream, 1));
  }
  {
    TlsServer server(certificate_, ca_.cert_pem(), TlsEcho);
    auto stream = Dial(Soon(), server.options(ca_.cert_pem()));
    // With TLS 1.3 the client learns of the refusal from its first read.
    if (stream) {
      char byte = 0;
      EXPECT_CODE((*stream)->Read(Soon(), std::span(&byte, 1)), Code::kPermission);
    } else {
      EXPECT_CODE(stream, Code::kPermission);
    }
  }
}

TEST_F(TlsStreamTest, BrokenFilesAreNamed) {
  auto directory = TempDir::Create();
  ASSERT_OK(directory);
  ASSERT_OK(WriteFileAtomic(directory->File("bad"), "not a certificate"));
  {
    OneShotServer server(Stall);
    auto options = server.options();
    options.use_tls = true;
    options.tls.ca_file = directory->File("bad");
    const auto stream = Dial(Soon(), options);
    ASSERT_CODE(stream, Code::kInvalid);
    EXPECT_THAT(stream.error().message(), HasSubstr(directory->File("bad")));
  }
  {
    OneShotServer server(Stall);
    auto options = server.options();
    options.use_tls = true;
    options.tls.cert_pem = certificate_.cert_pem;
    options.tls.key_pem = Secret("not a key");
    const auto stream = Dial(Soon(), options);
    ASSERT_CODE(stream, Code::kInvalid);
    EXPECT_THAT(stream.error().message(), ::testing::Not(HasSubstr("not a key")));
  }
}

TEST_F(TlsStreamTest, APeerThatDoesNotSpeakTlsEndsInTime) {
  {
    OneShotServer server([](int fd) {
      EXPECT_OK(WriteAll(fd, "-ERR this is not TLS\r\n"));
      Stall(fd);
    });
    auto options = server.options();
    options.use_tls = true;
    EXPECT_CODE(Dial(Soon(), options), Code::kUnavailable);
  }
  {
    OneShotServer server(Stall);
    auto options = server.options();
    options.use_tls = true;
    options.connect_timeout = 50ms;
    const auto stream = Dial(Soon(), options);
    ASSERT_CODE(stream, Code::kUnavailable);
    EXPECT_THAT(stream.error().message(), HasSubstr("within 50 ms"));
  }
  {
    OneShotServer server(Stall);
    auto options = server.options();
    options.use_tls = true;
    EXPECT_CODE(Dial(Context::Background().WithTimeout(50ms), options), Code::kDeadline);
  }
}

TEST_F(TlsStreamTest, ACutConnectionIsAnErrorACleanCloseIsNot) {
  char byte = 0;
  {
    TlsServer server(certificate_, "", [](SSL* ssl) { SSL_shutdown(ssl); });
    auto stream = Dial(Soon(), server.options(ca_.cert_pem()));
    ASSERT_OK(stream);
    auto end = (*stream)->Read(Soon(), std::span(&byte, 1));
    ASSERT_OK(end);
    EXPECT_EQ(*end, 0U);
  }
  {
    TlsServer server(certificate_, "", [](SSL*) {});
    auto stream = Dial(Soon(), server.options(ca_.cert_pem()));
    ASSERT_OK(stream);
    EXPECT_CODE((*stream)->Read(Soon(), std::span(&byte, 1)), Code::kUnavailable);
    EXPECT_TRUE((*stream)->Stale());
    // The peer answers the first write with RST; the next one would raise SIGPIPE.
    for (int i = 0; i < 3; ++i) (void)(*stream)->WriteAll(Soon(), "x");
  }
}

}  // namespace
}  // namespace paddleop::net
