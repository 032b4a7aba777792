#include "fuse/internal/name_feeder.h"

#include <gtest/gtest.h>

namespace paddleop::fuse {
namespace {

TEST(NameFeeder, ListsWhatIsReadAsAWhole) {
  EXPECT_FALSE(WorthListing(3, 200)) << "somebody looks at a few files";
  EXPECT_TRUE(WorthListing(6, 200));
  EXPECT_FALSE(WorthListing(100, 1'000'000)) << "a hundred of a million";
  EXPECT_TRUE(WorthListing(40'000, 1'000'000));
  EXPECT_FALSE(WorthListing(4, 5)) << "nearly all of them are known";
  EXPECT_FALSE(WorthListing(600'000, 1'000'000));
}

}  // namespace
}  // namespace paddleop::fuse
