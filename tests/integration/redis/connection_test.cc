// Every way to connect, and what goes over a connection, against a real redis-server.
#include <gmock/gmock.h>

#include <random>

#include "redis/script.h"
#include "server.h"

namespace paddleop::redis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string RandomBytes(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const auto word = random();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  return bytes;
}

void ExpectWorks(Connection& connection) {
  const std::string key("k\0\r\n\xff", 5);
  ASSERT_OK(connection.Call(Soon(), {"SET", key, std::string_view("v\0w", 3)}));
  auto reply = connection.Call(Soon(), {"GET", key});
  ASSERT_OK(reply);
  EXPECT_EQ(reply->text(), std::string_view("v\0w", 3));
  auto none = connection.Call(Soon(), {"GET", "no such key"});
  ASSERT_OK(none);
  EXPECT_TRUE(none->is_nil());
  EXPECT_FALSE(connection.Stale());
}

TEST(RedisConnection, PlainAndUnixSocketAndDatabase) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto plain = server->Connect();
  ASSERT_TRUE(plain);
  ExpectWorks(*plain);

  auto options = ParseRedisUrl("unix://" + server->peer().Get("unix") + "?db=3");
  ASSERT_OK(options);
  auto local = Connection::Open(Soon(), options->connection);
  ASSERT_OK(local);
  ExpectWorks(**local);
  auto clients = (*local)->Call(Soon(), {"CLIENT", "LIST"});
  ASSERT_OK(clients);
  EXPECT_THAT(std::string(clients->text()), HasSubstr("name=paddle-operator"));
  EXPECT_THAT(std::string(clients->text()), HasSubstr("db=3"));
}

TEST(RedisConnection, PasswordAndUsers) {
  auto server = Server::Start({"--password", "open sesame"});
  ASSERT_OK(server);
  auto admin = server->Connect();
  ASSERT_TRUE(admin);
  ExpectWorks(*admin);

  auto wrong = server->options().connection;
  wrong.password = Secret("close sesame");
  const auto refused = Connection::Open(Soon(), wrong);
  ASSERT_CODE(refused, Code::kPermission);
  EXPECT_THAT(refused.error().message(), Not(HasSubstr("sesame")));
  EXPECT_THAT(refused.error().message(), HasSubstr(wrong.Address()));
  wrong.password = {};
  EXPECT_CODE(Connection::Open(Soon(), wrong), Code::kPermission);

  ASSERT_OK(admin->Call(Soon(), {"ACL", "SETUSER", "reader", "on", ">pw", "~*", "+get"}));
  auto as_reader = server->options().connection;
  as_reader.user = "reader";
  as_reader.password = Secret("pw");
  auto reader = Connection::Open(Soon(), as_reader);  // may not even CLIENT SETNAME
  ASSERT_OK(reader);
  EXPECT_OK((*reader)->Call(Soon(), {"GET", "k"}));
  EXPECT_CODE((*reader)->Call(Soon(), {"SET", "k", "v"}), Code::kPermission);
}

TEST(RedisConnection, APasswordNobodyAskedForIsNamedAsTheMistake) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto options = server->options().connection;
  options.password = Secret("unneeded");
  const auto connection = Connection::Open(Soon(), options);
  ASSERT_FALSE(connection);
  EXPECT_THAT(connection.error().message(), HasSubstr("without any password configured"));
}

TEST(RedisConnection, Tls) {
  auto server = Server::Start({"--tls", "--password", "secret"});
  ASSERT_OK(server);
  auto connection = server->Connect();
  ASSERT_TRUE(connection);
  ExpectWorks(*connection);
  const std::string big = RandomBytes(8 << 20, 1);
  ASSERT_OK(connection->Call(Soon(), {"SET", "big", big}));
  auto reply = connection->Call(Soon(), {"GET", "big"});
  ASSERT_OK(reply);
  EXPECT_TRUE(reply->text() == big);

  auto unverified = server->options().connection;
  unverified.tls.ca_file.clear();
  EXPECT_CODE(Connection::Open(Soon(), unverified), Code::kPermission);
  unverified.tls.insecure_skip_verify = true;
  EXPECT_OK(Connection::Open(Soon(), unverified));

  auto with_certificate = server->options().connection;
  with_certificate.tls.cert_file = server->peer().Get("client_cert");
  with_certificate.tls.key_file = server->peer().Get("client_key");
  EXPECT_OK(Connection::Open(Soon(), with_certificate));

  auto plain = server->options().connection;
  plain.use_tls = false;
  plain.connect_timeout = 2s;
  EXPECT_CODE(Connection::Open(Soon(), plain), Code::kUnavailable);

  auto pool = server->MakePool();
  for (int i = 0; i < 20; ++i) ASSERT_OK(pool->Call(Soon(), {"PING"}));
  auto info = pool->Call(Soon(), {"INFO", "clients"});
  ASSERT_OK(info);
  EXPECT_THAT(std::string(info->text()), HasSubstr("connected_clients:2"));  // pool and connection
}

TEST(RedisConnection, BigValuesAndDeepReplies) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto connection = server->Connect();
  ASSERT_TRUE(connection);
  const std::string big = RandomBytes(64 << 20, 2);
  ASSERT_OK(connection->Call(Soon(), {"SET", "big", big}));
  auto reply = connection->Call(Soon(), {"GET", "big"});
  ASSERT_OK(reply);
  EXPECT_TRUE(reply->text() == big);

  auto limited = server->options().connection;
  limited.limits.max_string_bytes = 1 << 20;
  auto careful = Connection::Open(Soon(), limited);
  ASSERT_OK(careful);
  EXPECT_CODE((*careful)->Call(Soon(), {"GET", "big"}), Code::kInvalid);
  EXPECT_FALSE((*careful)->usable());

  auto nested = connection->Call(Soon(), {"EVAL", "return {{{1, 'a'}, false}, {}}", 0});
  ASSERT_OK(nested);
  EXPECT_EQ(
      *nested,
      Reply::OfArray(
          {Reply::OfArray({Reply::OfArray({Reply::OfInteger(1), Reply::OfString("a")}), Reply()}),
           Reply::OfArray({})}));
}

TEST(RedisConnection, AHundredThousandCommandsInBoundedMemory) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto connection = server->Connect();
  ASSERT_TRUE(connection);
  constexpr int kCount = 100'000;
  const std::string value(100, 'v');
  int sent = 0;
  int answered = 0;
  int furthest_ahead = 0;
  const auto source = [&](Commands& out) {
    out.Add({"HSET", "h" + std::to_string(sent % 100), sent, value});
    return ++sent < kCount;
  };
  const auto sink = [&](Reply reply) -> Result<void> {
    if (reply.is_error()) return std::unexpected(connection->ErrorOf(reply));
    furthest_ahead = std::max(furthest_ahead, sent - answered);
    ++answered;
    return {};
  };
  ASSERT_OK(connection->RunStreaming(Soon(), source, sink));
  EXPECT_EQ(answered, kCount);
  // Three chunks of 64 KiB in commands of 150 bytes: one being made, two on their way.
  EXPECT_LT(furthest_ahead, 2'000);

  Commands reads;
  for (int i = 0; i < kCount; ++i) reads.Add({"HGET", "h" + std::to_string(i % 100), i});
  auto replies = connection->Run(Soon(), reads);
  ASSERT_OK(replies);
  ASSERT_EQ(replies->size(), static_cast<std::size_t>(kCount));
  EXPECT_TRUE(std::ranges::all_of(*replies, [&](const Reply& r) { return r.text() == value; }));
}

TEST(RedisConnection, ScriptsSurviveScriptFlush) {
  auto server = Server::Start();
  ASSERT_OK(server);
  auto pool = server->MakePool();
  const Script script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
  const std::string_view keys[] = {"counter"};
  const Arg args[] = {5};
  for (int i = 1; i <= 3; ++i) {
    auto reply = script.Run(Soon(), *pool, keys, args);
    ASSERT_OK(reply);
    EXPECT_EQ(*reply->ToInteger(), 5 * i);
    ASSERT_OK(pool->Call(Soon(), {"SCRIPT", "FLUSH"}));
  }
  auto connection = server->Connect();
  ASSERT_OK(script.Load(Soon(), *connection));
  EXPECT_OK(connection->Call(Soon(), {"EVALSHA", script.digest(), 1, "counter", 1}));
  EXPECT_CODE(Script("return nonsense(").Run(Soon(), *pool, {}, {}), Code::kInvalid);
  EXPECT_CODE(Script("return redis.error_reply('MY error')").Run(Soon(), *pool, {}, {}),
              Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::redis
