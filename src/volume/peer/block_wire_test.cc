#include "volume/peer/block_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/bytes.h"
#include "base/testing/matchers.h"
#include "volume/peer/rendezvous.h"

namespace paddleop::volume {
namespace {

TEST(BlockWire, WishesGoThere) {
  const std::vector<BlockWish> wishes = {
      {.block = {7, 0, 4096}, .whole = true},
      {.block = {8, 1, 100'000}, .ranges = {{0, 4096}, {8192, 100'000}}},
      {.block = {9, 2, 5}},
  };
  auto read = DecodeWishes(EncodeWishes(wishes));
  ASSERT_OK(read);
  EXPECT_EQ(*read, wishes);
  EXPECT_EQ(wishes[1].bytes(), 4096U + 91'808U);
  EXPECT_CODE(DecodeWishes(EncodeWishes(wishes), 2), Code::kInvalid);
}

TEST(BlockWire, RefusesWhatIsDamaged) {
  const std::string good = EncodeWishes(
      std::vector<BlockWish>{{.block = {8, 1, 100'000}, .ranges = {{0, 4096}, {8192, 100'000}}}});
  for (std::size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(DecodeWishes(good.substr(0, n))) << n;
  }
  EXPECT_FALSE(DecodeWishes(good + "x"));
  EXPECT_FALSE(DecodeWishes(
      EncodeWishes(std::vector<BlockWish>{{.block = {8, 1, 4096}, .ranges = {{0, 8192}}}})));
  EXPECT_FALSE(DecodeWishes(EncodeWishes(
      std::vector<BlockWish>{{.block = {8, 1, 4096}, .ranges = {{1024, 2048}, {0, 512}}}})));
  EXPECT_FALSE(DecodeHaves("abc", 2));
}

TEST(BlockWire, GiftsCarryTheRanges) {
  const std::string block = "0123456789";
  const BlockWish wish{.block = {1, 0, 10}, .ranges = {{1, 3}, {8, 10}}};
  const std::string encoded = EncodeGift(wish, AsBytes(block));
  auto gift = DecodeGift(encoded);
  ASSERT_OK(gift);
  EXPECT_EQ(gift->wish, wish);
  EXPECT_EQ(gift->content, "1289");
  EXPECT_FALSE(DecodeGift(encoded.substr(0, encoded.size() - 1)));
}

TEST(Rendezvous, SpreadsEvenlyAndMovesLittle) {
  std::map<std::uint32_t, int> share;
  int moved = 0;
  constexpr int kBlocks = 30'000;
  for (std::uint64_t slice = 1; slice <= kBlocks; ++slice) {
    const BlockId block{.slice = slice, .index = 0, .length = 1};
    const auto owner = OwnerOf(block, 3);
    ++share[owner];
    const auto later = OwnerOf(block, 4);
    if (later != owner) {
      EXPECT_EQ(later, 3U);
      ++moved;
    }
  }
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_NEAR(share[i], kBlocks / 3.0, 400);
  EXPECT_NEAR(moved, kBlocks / 4.0, 400);
}

}  // namespace
}  // namespace paddleop::volume
