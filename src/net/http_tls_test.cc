// TLS between client and server: who trusts whom, and what happens when files change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/posix.h"
#include "base/testing/matchers.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/testing/certificates.h"

namespace paddleop::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::Certificate;
using testing::CertificateAuthority;
using ::testing::HasSubstr;

class HttpTlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::Create();
    ASSERT_OK(dir);
    dir_.emplace(*std::move(dir));
  }
  std::string Put(std::string_view name, std::string_view text) {
    auto path = dir_->File(name);
    EXPECT_OK(WriteFileAtomic(path, text));
    return path;
  }
  ServerTls Shows(const Certificate& certificate) {
    return {.cert_file = Put("server.crt", certificate.cert_pem),
            .key_file = Put("server.key", certificate.key_pem)};
  }
  void Serve(ServerTls tls) {
    auto server = HttpServer::Start(
        {.tls = std::move(tls), .log = &log_}, [](const Context&, const ServerRequest& request) {
          if (request.path == "/stream") {
            ServerResponse response;
            response.stream = [](const std::shared_ptr<ResponseStream>& out) {
              EXPECT_OK(out->Write(std::string(3 << 20, 's')));
            };
            return response;
          }
          return ServerResponse::Text(200, "hello " + request.client_name + request.body);
        });
    ASSERT_OK(server);
    server_ = *std::move(server);
  }
  Result<HttpResponse> Call(ClientTls tls, HttpRequest request = {}) {
    auto client = HttpClient::Create({.tls = std::move(tls)});
    EXPECT_OK(client);
    return Call(**client, std::move(request));
  }
  Result<HttpResponse> Call(HttpClient& client, HttpRequest request = {}) {
    request.url = fmt::format("https://127.0.0.1:{}{}", server_->port(), request.url);
    if (request.url.ends_with(fmt::to_string(server_->port()))) request.url += "/";
    return client.Do(ctx_, std::move(request));
  }

  const Context ctx_ = Context::Background().WithTimeout(seconds(20));
  std::optional<TempDir> dir_;
  std::string logged_;
  Logger log_{LogLevel::kWarn, [this](std::string_view line) { logged_ += line; }};
  CertificateAuthority ca_;
  CertificateAuthority other_ca_{"another CA"};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTlsTest, ATrustedServerIsSpokenTo) {
  Serve(Shows(ca_.Issue("server", {"127.0.0.1"})));
  auto by_text = Call({.ca_pem = ca_.cert_pem()});
  ASSERT_OK(by_text);
  EXPECT_EQ(by_text->body, "hello ");
  EXPECT_OK(Call({.ca_file = Put("ca.crt", ca_.cert_pem())}));
  const std::string large(4 << 20, 'x');
  auto echoed = Call({.ca_pem = ca_.cert_pem()}, {.method = "PUT", .body = large});
  ASSERT_OK(echoed);
  EXPECT_EQ(echoed->body.size(), large.size() + 6);
  auto streamed = Call({.ca_pem = ca_.cert_pem()}, {.url = "/stream"});
  ASSERT_OK(streamed);
  EXPECT_EQ(streamed->body.size(), 3u << 20);
}

TEST_F(HttpTlsTest, ServersThatCannotBeTrustedAreRefused) {
  Serve(Shows(ca_.Issue("server", {"127.0.0.1"})));
  auto wrong_ca = Call({.ca_pem = other_ca_.cert_pem()});
  ASSERT_CODE(wrong_ca, Code::kPermission);
  EXPECT_THAT(wrong_ca.error().message(), HasSubstr("sent: no"));
  EXPECT_CODE(Call({}), Code::kPermission);  // nor do the system's roots know it
  EXPECT_OK(Call({.insecure_skip_verify = true}));

  Serve(Shows(ca_.Issue("server", {"other.example"})));
  EXPECT_CODE(Call({.ca_pem = ca_.cert_pem()}), Code::kPermission);

  Serve(Shows(ca_.Issue("server", {"127.0.0.1"}, -60)));
  auto expired = Call({.ca_pem = ca_.cert_pem()});
  ASSERT_CODE(expired, Code::kPermission);
  EXPECT_THAT(expired.error().message(), HasSubstr("expired"));
}

TEST_F(HttpTlsTest, AnotherNameCanBeExpected) {
  Serve(Shows(ca_.Issue("server", {"api.example"})));
  EXPECT_OK(Call({.ca_pem = ca_.cert_pem(), .server_name = "api.example"}));
  EXPECT_CODE(Call({.ca_pem = ca_.cert_pem(), .server_name = "evil.example"}), Code::kPermission);
}

TEST_F(HttpTlsTest, ClientsShowTheirCertificate) {
  auto tls = Shows(ca_.Issue("server", {"127.0.0.1"}));
  tls.client_ca_file = Put("client-ca.crt", ca_.cert_pem());
  Serve(tls);
  const auto alice = ca_.Issue("alice", {});
  auto as_text = Call(
      {.ca_pem = ca_.cert_pem(), .cert_pem = alice.cert_pem, .key_pem = Secret(alice.key_pem)});
  ASSERT_OK(as_text);
  EXPECT_EQ(as_text->body, "hello alice");
  auto as_files = Call({.ca_pem = ca_.cert_pem(),
                        .cert_file = Put("alice.crt", alice.cert_pem),
                        .key_file = Put("alice.key", alice.key_pem)});
  ASSERT_OK(as_files);
  EXPECT_EQ(as_files->body, "hello alice");

  EXPECT_CODE(Call({.ca_pem = ca_.cert_pem()}), Code::kPermission);
  const auto mallory = other_ca_.Issue("alice", {});
  EXPECT_CODE(Call({.ca_pem = ca_.cert_pem(),
                    .cert_pem = mallory.cert_pem,
                    .key_pem = Secret(mallory.key_pem)}),
              Code::kPermission);
  const auto late = ca_.Issue("alice", {}, -60);
  EXPECT_CODE(
      Call({.ca_pem = ca_.cert_pem(), .cert_pem = late.cert_pem, .key_pem = Secret(late.key_pem)}),
      Code::kPermission);
}

TEST_F(HttpTlsTest, MistakesInTheOptionsAreNamed) {
  const auto pair = ca_.Issue("x", {});
  const auto create = [](ClientTls tls) { return HttpClient::Create({.tls = std::move(tls)}); };
  auto missing = create({.ca_file = dir_->File("nowhere.crt")});
  ASSERT_CODE(missing, Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("nowhere.crt"));
  EXPECT_CODE(create({.ca_pem = "not PEM"}), Code::kInvalid);
  EXPECT_CODE(create({.cert_pem = pair.cert_pem}), Code::kInvalid);

  const auto start = [](ServerTls tls) {
    return HttpServer::Start({.tls = std::move(tls)},
                             [](const Context&, const ServerRequest&) { return ServerResponse{}; });
  };
  auto good = Shows(pair);
  auto no_key = start({.cert_file = good.cert_file, .key_file = dir_->File("nowhere.key")});
  ASSERT_CODE(no_key, Code::kNotFound);
  EXPECT_THAT(no_key.error().message(), HasSubstr("nowhere.key"));
  EXPECT_CODE(start({.cert_file = good.cert_file}), Code::kInvalid);
  EXPECT_CODE(start({.cert_file = good.cert_file,
                     .key_file = Put("other.key", ca_.Issue("y", {}).key_pem)}),
              Code::kInvalid);
  EXPECT_CODE(start({.cert_file = Put("bad.crt", "rubbish"), .key_file = good.key_file}),
              Code::kInvalid);
}

TEST_F(HttpTlsTest, RotatedCertificatesTakeEffect) {
  Serve(Shows(ca_.Issue("server", {"127.0.0.1"})));
  const auto ca_file = Put("ca.crt", ca_.cert_pem());
  auto client = HttpClient::Create({.tls = {.ca_file = ca_file}});
  ASSERT_OK(client);
  ASSERT_OK(Call(**client));
  // The server gets a certificate of another CA; then the client learns of that CA.
  Shows(other_ca_.Issue("server", {"127.0.0.1"}));
  const auto until = [&](auto condition) {
    const auto end = steady_clock::now() + seconds(10);
    while (!condition()) {
      if (steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(20));
    }
    return true;
  };
  EXPECT_TRUE(until([&] { return Call({.ca_pem = other_ca_.cert_pem()}).has_value(); }));
  Put("ca.crt", other_ca_.cert_pem());
  EXPECT_TRUE(until([&] {
    return Call(**client, {.headers = {{"Connection", "close"}}}).has_value() &&
           Call(**client).has_value();
  }));
  // Rubbish does not take the server down.
  Put("server.crt", "rubbish");
  EXPECT_TRUE(until([&] {
    EXPECT_OK(Call({.ca_pem = other_ca_.cert_pem()}));
    return !logged_.empty();
  }));
  EXPECT_THAT(logged_, HasSubstr("server.crt"));
}

TEST_F(HttpTlsTest, PlainTextToATlsPortIsNoHang) {
  Serve(Shows(ca_.Issue("server", {"127.0.0.1"})));
  auto client = HttpClient::Create({});
  ASSERT_OK(client);
  auto response =
      (*client)->Do(ctx_, {.url = fmt::format("http://127.0.0.1:{}/", server_->port())});
  EXPECT_FALSE(response);
}

}  // namespace
}  // namespace paddleop::net
