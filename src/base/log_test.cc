#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/secret.h"

namespace paddleop {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class LogTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines_;
  Logger log_{LogLevel::kInfo, [this](std::string_view line) { lines_.emplace_back(line); }};
};

TEST_F(LogTest, WritesOneJsonObjectALine) {
  log_.Info(Context::Background().WithField("job", "ns/a"), "pod created",
            {{"pod", "a-0"}, {"n", 3}});
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0],
              EndsWith(R"("level":"info","msg":"pod created","job":"ns/a","pod":"a-0","n":"3"})"));
}

TEST_F(LogTest, LeavesOutWhatIsBelowItsLevel) {
  log_.Debug(Context::Background(), "detail");
  EXPECT_TRUE(lines_.empty());
}

TEST_F(LogTest, MasksSecretsAndUrls) {
  log_.Info(Context::Background(), "connect",
            {{"key", Secret("hunter2")}, {"url", RedactUrl("redis://u:hunter2@h:1/0")}});
  EXPECT_THAT(lines_[0], Not(HasSubstr("hunter2")));
  EXPECT_THAT(lines_[0], HasSubstr("redis://u:***@h:1/0"));
}

TEST_F(LogTest, BytesThatAreNotTextCannotBreakTheLine) {
  log_.Info(Context::Background(), "x", {{"k", std::string("a\"\n\x01\xff\xe4\xbd\xa0")}});
  EXPECT_THAT(lines_[0], HasSubstr("a\\\"\\n\\u0001\\ufffd\xe4\xbd\xa0"));
}

TEST(RedactUrl, FindsPasswordsWhereTheyHide) {
  EXPECT_EQ(RedactUrl("redis://:pw@h/1"), "redis://:***@h/1");
  EXPECT_EQ(RedactUrl("s3://AK:S/K+x@b.host/p"), "s3://AK:***@b.host/p");
  EXPECT_EQ(RedactUrl("https://h/p?X-Amz-Signature=abc&x=1"),
            "https://h/p?X-Amz-Signature=***&x=1");
  EXPECT_EQ(RedactUrl("file:///a/b"), "file:///a/b");
  EXPECT_EQ(RedactUrl("sqlite3://x.db?password=a@b"), "sqlite3://x.db?password=***");
}

}  // namespace
}  // namespace paddleop
