#include "redis/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/testing/matchers.h"

namespace paddleop::redis {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

class RedisUrlTest : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("REDIS_PASSWORD"); }
  void TearDown() override { ::unsetenv("REDIS_PASSWORD"); }
};

TEST_F(RedisUrlTest, ReadsHostPortDatabaseAndLogin) {
  auto options = ParseRedisUrl("redis://alice:p%40ss@redis.test:1234/7");
  ASSERT_OK(options);
  const ConnectionOptions& connection = options->connection;
  EXPECT_EQ(connection.Address(), "redis.test:1234");
  EXPECT_EQ(connection.user, "alice");
  EXPECT_EQ(connection.password.Reveal(), "p@ss");
  EXPECT_EQ(connection.database, 7);
  EXPECT_FALSE(connection.use_tls);
  EXPECT_OK(options->Validate());
}

TEST_F(RedisUrlTest, HasDefaults) {
  for (const auto* text : {"redis://localhost", "redis://localhost/", "redis://localhost:6379/0"}) {
    auto options = ParseRedisUrl(text);
    ASSERT_OK(options);
    EXPECT_EQ(options->connection.Address(), "localhost:6379");
    EXPECT_EQ(options->connection.database, 0);
    EXPECT_TRUE(options->connection.password.empty());
    EXPECT_EQ(options->connection.read_timeout, 30s);
    EXPECT_EQ(options->connection.write_timeout, 5s);
  }
}

TEST_F(RedisUrlTest, TakesThePasswordFromTheEnvironment) {
  ::setenv("REDIS_PASSWORD", "from env", 1);
  EXPECT_EQ(ParseRedisUrl("redis://h")->connection.password.Reveal(), "from env");
  EXPECT_EQ(ParseRedisUrl("redis://:own@h")->connection.password.Reveal(), "own");
}

TEST_F(RedisUrlTest, ReadsUnixSockets) {
  auto options = ParseRedisUrl("unix:///run/redis/redis.sock?db=2");
  ASSERT_OK(options);
  EXPECT_EQ(options->connection.unix_socket, "/run/redis/redis.sock");
  EXPECT_EQ(options->connection.database, 2);
  auto with_login = ParseRedisUrl("unix://u:p@/run/s");
  ASSERT_OK(with_login);
  EXPECT_EQ(with_login->connection.unix_socket, "/run/s");
  EXPECT_EQ(with_login->connection.password.Reveal(), "p");
}

TEST_F(RedisUrlTest, ReadsOptions) {
  auto options = ParseRedisUrl(
      "rediss://h/1?read-timeout=1m30s&write_timeout=1.5s&dial-timeout=250ms&pool-size=5"
      "&min-retry-backoff=10ms&max-retry-backoff=1s&tls-ca-cert-file=/ca&tls-cert-file=/cert"
      "&tls-key-file=/key&tls-server-name=n&insecure-skip-verify=true&client-name=c"
      "&route-read=replica");
  ASSERT_OK(options);
  const ConnectionOptions& connection = options->connection;
  EXPECT_EQ(connection.read_timeout, 90s);
  EXPECT_EQ(connection.write_timeout, 1500ms);
  EXPECT_EQ(connection.connect_timeout, 250ms);
  EXPECT_EQ(options->max_connections, 5U);
  EXPECT_EQ(options->retry.initial, 10ms);
  EXPECT_EQ(options->reconnect.maximum, 1s);
  EXPECT_TRUE(connection.use_tls);
  EXPECT_EQ(connection.tls.ca_file, "/ca");
  EXPECT_EQ(connection.tls.cert_file, "/cert");
  EXPECT_EQ(connection.tls.key_file, "/key");
  EXPECT_EQ(connection.tls.server_name, "n");
  EXPECT_TRUE(connection.tls.insecure_skip_verify);
  EXPECT_EQ(connection.client_name, "c");
}

TEST_F(RedisUrlTest, RefusesWhatIsWrongWithoutTellingThePassword) {
  for (const auto* text : {
           "http://:hunter2@h",
           "redis://:hunter2@/1",
           "redis://:hunter2@h/one",
           "redis://:hunter2@h/-1",
           "redis://:hunter2@h?db=x",
           "redis://:hunter2@h?read-timeout=30",
           "redis://:hunter2@h?read-timeout=s",
           "redis://:hunter2@h?read-timeout=0s",
           "redis://:hunter2@h?read-timeout=1e300s",
           "redis://:hunter2@h?pool-size=0",
           "redis://:hunter2@h?tls-ca-cert-file=/ca",
           "redis://:hunter2@h?unknown=1",
           "unix://:hunter2@h/path",
           "unix://:hunter2@",
       }) {
    const auto options = ParseRedisUrl(text);
    ASSERT_CODE(options, Code::kInvalid) << text;
    EXPECT_THAT(options.error().message(), Not(HasSubstr("hunter2")));
  }
}

TEST_F(RedisUrlTest, RefusesClustersAndSentinels) {
  EXPECT_CODE(ParseRedisUrl("redis://a:1,b:2/0"), Code::kNotSupported);
  EXPECT_CODE(ParseRedisUrl("redis://master,s1:26379/0"), Code::kNotSupported);
}

}  // namespace
}  // namespace paddleop::redis
