// The metadata contract on a real Redis server.
#include <atomic>
#include <string>

#include "redis/connection.h"
#include "support/peer.h"
#include "volume/meta/testing/meta_contract.h"

namespace paddleop::volume::testing {
namespace {

using paddleop::testing::Peer;

constexpr int kDatabases = 16;  // the server's default

// One server for the whole program; each database of it serves one test at a time.
Result<const Peer*> Server() {
  static const Result<Peer> peer = Peer::Start("redis");
  if (!peer) return std::unexpected(peer.error());
  return &*peer;
}

class RedisDatabase final : public MetaDatabase {
 public:
  explicit RedisDatabase(std::string url) : url_(std::move(url)) {}
  std::string url() const override { return url_; }

 private:
  std::string url_;
};

Result<std::unique_ptr<MetaDatabase>> MakeRedisDatabase() {
  static std::atomic<int> next = 0;
  ASSIGN_OR_RETURN(const Peer* server, Server());
  const Context ctx = Context::Background().WithTimeout(std::chrono::seconds(30));
  redis::ConnectionOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(server->Get("port")));
  options.database = next++ % kDatabases;
  ASSIGN_OR_RETURN(auto connection, redis::Connection::Open(ctx, options));
  RETURN_IF_ERROR(connection->Call(ctx, {"FLUSHDB"}));
  return std::make_unique<RedisDatabase>(
      fmt::format("redis://127.0.0.1:{}/{}", options.port, options.database));
}

INSTANTIATE_TEST_SUITE_P(Redis, MetaStoreContract,
                         ::testing::Values(MetaFactory{"redis", MakeRedisDatabase}));

}  // namespace
}  // namespace paddleop::volume::testing
