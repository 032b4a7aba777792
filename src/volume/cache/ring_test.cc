#include "volume/cache/internal/ring.h"

#include <gtest/gtest.h>

namespace paddleop::volume::cache {
namespace {

TEST(Murmur3, GivesTheKnownValues) {
  EXPECT_EQ(Murmur3(""), 0U);
  EXPECT_EQ(Murmur3("hello"), 0x248bfa47U);
  EXPECT_EQ(Murmur3("hello, world"), 0x149bbb7fU);
}

// Where juicefs 1.3.1 put blocks of a file in three directories with these ids.
TEST(Ring, ChoosesAsTheOfficialClient) {
  const Ring ring({"8a07ff47-f423-491a-8f77-0fc002198a12", "35cd36ed-0ecc-4c2a-804a-c877812d6927",
                   "1523b4a9-8f0b-4bac-808b-3b2980cbefc0"});
  for (const char* block : {"1_101", "1_37", "2_128", "2_54", "3_14", "3_81"})
    EXPECT_EQ(ring.Choose("chunks/0/0/" + std::string(block) + "_65536"), 0U) << block;
  // The last six would lie elsewhere if every directory had as many points.
  for (const char* block :
       {"1_0", "1_181", "2_136", "2_88", "3_200", "3_130", "2_72", "1_35", "3_181", "3_131", "1_5"})
    EXPECT_EQ(ring.Choose("chunks/0/0/" + std::string(block) + "_65536"), 1U) << block;
  for (const char* block : {"1_100", "1_46", "2_139", "2_83", "3_179"})
    EXPECT_EQ(ring.Choose("chunks/0/0/" + std::string(block) + "_65536"), 2U) << block;
}

TEST(Ring, ADirectoryThatGoesTakesMostlyItsOwnKeysAlong) {
  const Ring three({"one", "two", "three"}), two({"one", "two"}), alone({"one"});
  int moved = 0, shares[3] = {};
  for (int i = 0; i < 10'000; ++i) {
    const std::string key = "chunks/0/0/" + std::to_string(i) + "_0_4194304";
    const std::size_t before = three.Choose(key), after = two.Choose(key);
    ++shares[before];
    if (before != 2 && before != after) ++moved;
    EXPECT_EQ(alone.Choose(key), 0U);
  }
  for (const int share : shares) EXPECT_NEAR(share, 3333, 400);
  EXPECT_LT(moved, 1000);
}

}  // namespace
}  // namespace paddleop::volume::cache
