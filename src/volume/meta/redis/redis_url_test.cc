#include "volume/meta/redis/redis_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::volume {
namespace {

TEST(RedisUrl, NamesServerUserAndDatabase) {
  auto options = ParseRedisUrl("redis://me:p%40ss@cache.local:6380/3");
  ASSERT_OK(options);
  EXPECT_EQ(options->connection.host, "cache.local");
  EXPECT_EQ(options->connection.port, 6380);
  EXPECT_EQ(options->connection.user, "me");
  EXPECT_EQ(options->connection.password.Reveal(), "p@ss");
  EXPECT_EQ(options->connection.database, 3);
  EXPECT_FALSE(options->connection.use_tls);
}

TEST(RedisUrl, HasDefaults) {
  auto options = ParseRedisUrl("redis://localhost");
  ASSERT_OK(options);
  EXPECT_EQ(options->connection.port, 6379);
  EXPECT_EQ(options->connection.database, 0);
}

TEST(RedisUrl, UnderstandsTls) {
  auto options = ParseRedisUrl("rediss://h:1/0?tls-ca-cert-file=/ca.pem&insecure-skip-verify=true");
  ASSERT_OK(options);
  EXPECT_TRUE(options->connection.use_tls);
  EXPECT_EQ(options->connection.tls.ca_file, "/ca.pem");
  EXPECT_TRUE(options->connection.tls.insecure_skip_verify);
}

TEST(RedisUrl, UnderstandsUnixSockets) {
  auto options = ParseRedisUrl("unix:///run/redis.sock?db=2");
  ASSERT_OK(options);
  EXPECT_EQ(options->connection.unix_socket, "/run/redis.sock");
  EXPECT_EQ(options->connection.database, 2);
}

TEST(RedisUrl, UnderstandsTimes) {
  auto options =
      ParseRedisUrl("redis://h?read-timeout=7&write-timeout=1500ms&max-retry-backoff=1s");
  ASSERT_OK(options);
  EXPECT_EQ(options->connection.read_timeout, std::chrono::seconds(7));
  EXPECT_EQ(options->connection.write_timeout, std::chrono::milliseconds(1500));
}

TEST(RedisUrl, RefusesWhatItDoesNotUnderstandWithoutThePassword) {
  EXPECT_CODE(ParseRedisUrl("redis://a:1,b:2/0"), Code::kNotSupported);
  EXPECT_CODE(ParseRedisUrl("redis://master,a,b:26379/1"), Code::kNotSupported);
  EXPECT_CODE(ParseRedisUrl("redis://h/one"), Code::kInvalid);
  EXPECT_CODE(ParseRedisUrl("redis://h?read-timeout=soon"), Code::kInvalid);
  auto unknown = ParseRedisUrl("redis://:hidden@h/0?wat=1");
  ASSERT_CODE(unknown, Code::kInvalid);
  EXPECT_THAT(unknown.error().message(), ::testing::Not(::testing::HasSubstr("hidden")));
}

}  // namespace
}  // namespace paddleop::volume
