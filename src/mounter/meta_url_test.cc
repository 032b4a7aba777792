#include "mounter/meta_url.h"

#include <gtest/gtest.h>

namespace paddleop::mounter {
namespace {

TEST(MetaUrl, LosesItsPassword) {
  EXPECT_EQ(SplitPassword("redis://:p%40ss@host:6379/1").url, "redis://host:6379/1");
  EXPECT_EQ(SplitPassword("redis://:p%40ss@host:6379/1").password.Reveal(), "p@ss");
  EXPECT_EQ(SplitPassword("redis://me:a:b@host/1").url, "redis://me@host/1");
  EXPECT_EQ(SplitPassword("redis://me:a:b@host/1").password.Reveal(), "a:b");
}

TEST(MetaUrl, WithoutAPasswordStays) {
  for (const char* url :
       {"redis://host:6379/1", "sqlite3:///a/b@c:d.db", "redis://me@host/1", "x"}) {
    EXPECT_EQ(SplitPassword(url).url, url);
    EXPECT_TRUE(SplitPassword(url).password.empty());
  }
}

}  // namespace
}  // namespace paddleop::mounter
