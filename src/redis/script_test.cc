#include "redis/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/matchers.h"
#include "redis/testing/fake_server.h"

namespace paddleop::redis {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeClient;
using testing::FakeServer;

TEST(ScriptTest, SendsTheSourceOnlyToAServerThatLacksIt) {
  std::vector<std::vector<std::string>> seen;
  const Script script("return 1");
  {
    FakeServer server([&](FakeClient& client, int) {
      bool known = false;
      while (auto command = client.Read()) {
        seen.push_back(*command);
        known = known || command->front() == "EVAL";
        client.Send(known ? ":1\r\n" : "-NOSCRIPT No matching script.\r\n");
      }
    });
    PoolOptions options;
    options.connection = server.options();
    auto pool = Pool::Create(options);
    ASSERT_OK(pool);
    const std::string_view keys[] = {"k1", "k2"};
    const Arg args[] = {"a", 5};
    for (int i = 0; i < 2; ++i) {
      auto reply = script.Run(Context::Background().WithTimeout(20s), **pool, keys, args);
      ASSERT_OK(reply);
      EXPECT_EQ(*reply->ToInteger(), 1);
    }
  }
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(script.digest(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
  EXPECT_THAT(seen[0], ElementsAre("EVALSHA", script.digest(), "2", "k1", "k2", "a", "5"));
  EXPECT_THAT(seen[1], ElementsAre("EVAL", "return 1", "2", "k1", "k2", "a", "5"));
  EXPECT_THAT(seen[2], ElementsAre("EVALSHA", script.digest(), "2", "k1", "k2", "a", "5"));
}

TEST(ScriptTest, AScriptsErrorIsAnError) {
  FakeServer server([&](FakeClient& client, int) {
    while (client.Read()) client.Send("-ERR user_script:1: broken\r\n");
  });
  const auto ctx = Context::Background().WithTimeout(20s);
  auto connection = Connection::Open(ctx, server.options());
  ASSERT_OK(connection);
  EXPECT_CODE(Script("x").Run(ctx, **connection, {}, {}), Code::kInvalid);
  EXPECT_CODE(Script("x").Load(ctx, **connection), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::redis
