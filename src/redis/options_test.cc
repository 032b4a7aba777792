#include "redis/options.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::redis {
namespace {

TEST(OptionsTest, NamesTheServerWithoutSecrets) {
  ConnectionOptions options;
  options.password = Secret("secret");
  EXPECT_EQ(options.Address(), "127.0.0.1:6379");
  options.host = "::1";
  EXPECT_EQ(options.Address(), "[::1]:6379");
  options.unix_socket = "/run/redis.sock";
  EXPECT_EQ(options.Address(), "/run/redis.sock");
}

TEST(OptionsTest, RefusesWhatCannotWork) {
  EXPECT_OK(ConnectionOptions{}.Validate());
  const auto broken = [](auto change) {
    ConnectionOptions options;
    change(options);
    return options.Validate();
  };
  EXPECT_CODE(broken([](auto& o) { o.host.clear(); }), Code::kInvalid);
  EXPECT_CODE(broken([](auto& o) { o.port = 0; }), Code::kInvalid);
  EXPECT_CODE(broken([](auto& o) { o.database = -1; }), Code::kInvalid);
  EXPECT_CODE(broken([](auto& o) { o.user = "u"; }), Code::kInvalid);
  EXPECT_CODE(broken([](auto& o) { o.client_name = "two words"; }), Code::kInvalid);
  EXPECT_CODE(broken([](auto& o) { o.read_timeout = {}; }), Code::kInvalid);
  EXPECT_CODE(broken([](auto& o) { o.limits.max_string_bytes = SIZE_MAX; }), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::redis
