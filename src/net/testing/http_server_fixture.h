// A server on loopback and a client of it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/testing/matchers.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace paddleop::net::testing {

// Fails the test instead of hanging when the condition never comes.
template <class Condition>
[[nodiscard]] bool Eventually(Condition condition,
                              std::chrono::seconds limit = std::chrono::seconds(10)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class HttpServerTest : public ::testing::Test {
 protected:
  void Serve(HttpServer::Handler handler, HttpServerOptions options = {}) {
    options.metrics = &metrics_;
    auto server = HttpServer::Start(std::move(options), std::move(handler));
    ASSERT_OK(server);
    server_ = *std::move(server);
    auto client = HttpClient::Create({});
    ASSERT_OK(client);
    client_ = *std::move(client);
  }
  std::string Url(std::string_view path = "/") const {
    return fmt::format("http://127.0.0.1:{}{}", server_->port(), path);
  }
  Result<HttpResponse> Get(std::string_view path = "/") {
    return client_->Do(ctx_, {.url = Url(path)});
  }

  const Context ctx_ = Context::Background().WithTimeout(std::chrono::seconds(30));
  MetricsRegistry metrics_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<HttpClient> client_;
};

}  // namespace paddleop::net::testing
