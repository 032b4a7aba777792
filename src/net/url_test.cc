#include "net/url.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::net {
namespace {

TEST(ParseUrl, SplitsAndDecodesEveryPart) {
  auto url =
      ParseUrl("REDIS://us%65r:p%40ss@Host.example:6379/1%20x?read-timeout=5s&a=b+c&a=d&flag");
  ASSERT_OK(url);
  EXPECT_EQ(url->scheme, "redis");
  EXPECT_EQ(url->user, "user");
  EXPECT_EQ(url->password.Reveal(), "p@ss");
  EXPECT_EQ(url->host, "Host.example");
  EXPECT_EQ(url->port, 6379);
  EXPECT_EQ(url->path, "/1 x");
  EXPECT_EQ(url->query.at("read-timeout"), "5s");
  EXPECT_EQ(url->query.at("a"), "b c");  // the first of a name counts
  EXPECT_EQ(url->query.at("flag"), "");
  EXPECT_EQ(url->Authority(), "Host.example:6379");
}

TEST(ParseUrl, PartsMayBeAbsent) {
  auto url = ParseUrl("http://h");
  ASSERT_OK(url);
  EXPECT_EQ(url->host, "h");
  EXPECT_EQ(url->port, std::nullopt);
  EXPECT_EQ(url->path, "");
  auto file = ParseUrl("sqlite3:///data/meta.db");
  ASSERT_OK(file);
  EXPECT_EQ(file->host, "");
  EXPECT_EQ(file->path, "/data/meta.db");
  auto only_password = ParseUrl("redis://:pw@h/");
  ASSERT_OK(only_password);
  EXPECT_EQ(only_password->user, "");
  EXPECT_EQ(only_password->password.Reveal(), "pw");
}

TEST(ParseUrl, AddressesOfVersionSixStandInBrackets) {
  auto url = ParseUrl("http://[::1]:8080/x");
  ASSERT_OK(url);
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, 8080);
  EXPECT_EQ(url->Authority(), "[::1]:8080");
  EXPECT_CODE(ParseUrl("http://::1:8080/x"), Code::kInvalid);
}

TEST(ParseUrl, ThePasswordEndsAtTheLastAt) {
  auto url = ParseUrl("redis://u:p@ss@h:1");
  ASSERT_OK(url);
  EXPECT_EQ(url->password.Reveal(), "p@ss");
  EXPECT_EQ(url->host, "h");
}

TEST(ParseUrl, ListsOfHostsAreLeftToTheScheme) {
  auto url = ParseUrl("redis://a:1,b:2,c:3/0");
  ASSERT_OK(url);
  EXPECT_EQ(url->host, "a:1,b:2,c");
  EXPECT_EQ(url->Authority(), "a:1,b:2,c:3");
}

TEST(ParseUrl, BadOnesAreRefusedWithoutTheirPassword) {
  for (const char* text : {"",
                           "host",
                           "://h",
                           "1x://h",
                           "ht tp://h",
                           "http://h:0",
                           "http://h:65536",
                           "http://h:8x",
                           "http://h:",
                           "http://:80",
                           "http://[::1",
                           "http://[]",
                           "http://[::1]x",
                           "http://h/%4",
                           "http://h/%zz",
                           "http://h/a b",
                           "http://h/\n",
                           "http://h#f",
                           "http://h^",
                           "http://h/?a=%"}) {
    EXPECT_CODE(ParseUrl(text), Code::kInvalid) << text;
  }
  const auto bad = ParseUrl("redis://user:hunter2@h:99999/0");
  ASSERT_CODE(bad, Code::kInvalid);
  EXPECT_FALSE(bad.error().message().contains("hunter2")) << bad.error().message();
  EXPECT_TRUE(bad.error().message().contains("port")) << bad.error().message();
}

TEST(Url, RedactedNamesNobodyAndNoSecret) {
  auto url = ParseUrl("https://key:pw@h:9000/bucket/a@b?X-Amz-Signature=abc&part=2");
  ASSERT_OK(url);
  const auto text = url->Redacted();
  EXPECT_EQ(text, "https://h:9000/bucket/a%40b?X-Amz-Signature=***&part=2");
}

}  // namespace
}  // namespace paddleop::net
