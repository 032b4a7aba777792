// What the tests of src/redis against a real server share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/matchers.h"
#include "redis/pool.h"
#include "redis/url.h"
#include "support/peer.h"

namespace paddleop::redis {

using namespace std::chrono_literals;

inline Context Soon() { return Context::Background().WithTimeout(60s); }

// A redis-server of the test's own.
class Server {
 public:
  static Result<Server> Start(const std::vector<std::string>& args = {}) {
    ASSIGN_OR_RETURN(auto peer, paddleop::testing::Peer::Start("redis", args));
    return Server(std::move(peer));
  }

  // How to reach it over TCP or TLS, as its URL says.
  PoolOptions options() const {
    auto parsed = ParseRedisUrl(peer_.Get("url"));
    EXPECT_OK(parsed);
    PoolOptions options = *std::move(parsed);
    if (options.connection.use_tls) options.connection.tls.ca_file = peer_.Get("ca");
    return options;
  }
  std::unique_ptr<Connection> Connect() const {
    auto connection = Connection::Open(Soon(), options().connection);
    EXPECT_OK(connection);
    return connection ? *std::move(connection) : nullptr;
  }
  std::unique_ptr<Pool> MakePool() const { return MakePool(options()); }
  static std::unique_ptr<Pool> MakePool(PoolOptions options) {
    auto pool = Pool::Create(std::move(options));
    EXPECT_OK(pool);
    return *std::move(pool);
  }
  // "kill redis", "start redis", ...
  void Command(std::string_view line) { ASSERT_OK(peer_.Command(line)); }
  const paddleop::testing::Peer& peer() const { return peer_; }

 private:
  explicit Server(paddleop::testing::Peer peer) : peer_(std::move(peer)) {}
  paddleop::testing::Peer peer_;
};

}  // namespace paddleop::redis
