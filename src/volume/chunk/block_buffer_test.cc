#include "volume/chunk/block_buffer.h"

#include <gtest/gtest.h>

namespace paddleop::volume {
namespace {

constexpr std::size_t kLarge = 4U << 20;

TEST(BlockBufferPool, KeepsAFewWhileManyAreInUseAndNoneAfterwards) {
  const auto pool = std::make_shared<BlockBufferPool>(kLarge);
  std::vector<BlockBuffer> buffers;
  for (int i = 0; i < 30; ++i) buffers.push_back(pool->Take(kLarge));
  const std::byte* last = buffers.back().bytes().data();
  buffers.pop_back();
  EXPECT_EQ(pool->kept(), 1u);
  buffers.push_back(pool->Take(kLarge - 1000));
  EXPECT_EQ(buffers.back().bytes().data(), last) << "it is used again";
  EXPECT_EQ(buffers.back().bytes().size(), kLarge - 1000);
  EXPECT_EQ(pool->kept(), 0u);
  for (; !buffers.empty(); buffers.pop_back()) {
    EXPECT_LE(pool->kept(), 4u);
    EXPECT_LE(pool->kept(), buffers.size() / 3);
  }
  EXPECT_EQ(pool->kept(), 0u);
}

TEST(BlockBufferPool, SmallBlocksAreNoneOfItsBusiness) {
  const auto pool = std::make_shared<BlockBufferPool>(kLarge);
  std::vector<BlockBuffer> large;
  for (int i = 0; i < 12; ++i) large.push_back(pool->Take(kLarge));
  {
    const BlockBuffer small = pool->Take(1000);
  }
  EXPECT_EQ(pool->kept(), 0u);
}

TEST(BlockBufferPool, ItsBuffersMayOutliveIt) {
  auto pool = std::make_shared<BlockBufferPool>(kLarge);
  BlockBuffer buffer = pool->Take(kLarge);
  pool.reset();
  buffer.bytes().back() = std::byte{1};
}

}  // namespace
}  // namespace paddleop::volume
