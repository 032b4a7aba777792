#include "fuse/internal/refusals.h"

#include <gtest/gtest.h>

namespace paddleop::fuse {
namespace {

using volume::Ino;

TEST(Refusals, WhoAsksAgainIsAnsweredOnce) {
  Refusals refusals;
  EXPECT_TRUE(refusals.Refuses(1, Ino{7}));
  EXPECT_FALSE(refusals.Refuses(1, Ino{7}));
  EXPECT_TRUE(refusals.Refuses(1, Ino{7})) << "it has come again, perhaps by a name";
}

TEST(Refusals, ANameIsLookedForMoreThanOnce) {
  Refusals refusals;
  EXPECT_TRUE(refusals.RefusesName(1, Ino{7}, "a"));
  EXPECT_FALSE(refusals.RefusesName(1, Ino{7}, "a"));
  EXPECT_FALSE(refusals.RefusesName(1, Ino{7}, "a"));
}

TEST(Refusals, AreOfOneThreadAndOnePlace) {
  Refusals refusals;
  EXPECT_TRUE(refusals.Refuses(1, Ino{7}));
  EXPECT_TRUE(refusals.Refuses(2, Ino{7}));
  EXPECT_TRUE(refusals.Refuses(1, Ino{8}));
  EXPECT_TRUE(refusals.RefusesName(1, Ino{7}, "a"));
  EXPECT_TRUE(refusals.RefusesName(2, Ino{7}, "a"));
  EXPECT_TRUE(refusals.RefusesName(1, Ino{7}, "b"));
  EXPECT_FALSE(refusals.RefusesName(1, Ino{7}, "a"));
  EXPECT_FALSE(refusals.Refuses(2, Ino{7}));
  EXPECT_FALSE(refusals.Refuses(1, Ino{7}));
}

TEST(Refusals, AreForgottenAfterAWhile) {
  Refusals refusals;
  const auto start = Refusals::Clock::now();
  const auto later = start + std::chrono::minutes(1);
  EXPECT_TRUE(refusals.Refuses(1, Ino{7}, start));
  EXPECT_TRUE(refusals.Refuses(1, Ino{7}, later));
  EXPECT_FALSE(refusals.Refuses(1, Ino{7}, later));
  EXPECT_TRUE(refusals.RefusesName(1, Ino{7}, "a", start));
  EXPECT_TRUE(refusals.RefusesName(1, Ino{7}, "a", later));
}

}  // namespace
}  // namespace paddleop::fuse
