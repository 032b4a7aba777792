#include "volume/chunk/block_buffer.h"

#include <gtest/gtest.h>

namespace paddleop::volume {
namespace {

constexpr std::size_t kLarge = 4U << 20;

constexpr std::chrono::hours kNever{1};

TEST(BlockBufferPool, KeepsWhatWasInUseUpToALimit) {
  const auto pool = std::make_shared<BlockBufferPool>(kLarge, kNever);
  std::vector<BlockBuffer> buffers;
  for (int i = 0; i < 30; ++i) buffers.push_back(pool->Take(kLarge));
  const std::byte* last = buffers.back().bytes().data();
  buffers.pop_back();
  EXPECT_EQ(pool->kept(), 1u);
  buffers.push_back(pool->Take(kLarge - 1000));
  EXPECT_EQ(buffers.back().bytes().data(), last) << "it is used again";
  EXPECT_EQ(buffers.back().bytes().size(), kLarge - 1000);
  EXPECT_EQ(pool->kept(), 0u);
  buffers.clear();
  EXPECT_EQ(pool->kept(), 16u);
}

TEST(BlockBufferPool, AtRestAllMemoryGoesBack) {
  const auto pool = std::make_shared<BlockBufferPool>(kLarge, std::chrono::milliseconds(1));
  for (int round = 0; round < 2; ++round) {
    std::vector<BlockBuffer> buffers;
    for (int i = 0; i < 3; ++i) buffers.push_back(pool->Take(kLarge));
    buffers.resize(1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (pool->kept() > 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(pool->kept(), 0u);
  }
}

TEST(BlockBufferPool, SmallBlocksAreNoneOfItsBusiness) {
  const auto pool = std::make_shared<BlockBufferPool>(kLarge, kNever);
  std::vector<BlockBuffer> large;
  for (int i = 0; i < 12; ++i) large.push_back(pool->Take(kLarge));
  {
    const BlockBuffer small = pool->Take(1000);
  }
  EXPECT_EQ(pool->kept(), 0u);
}

TEST(BlockBufferPool, ItsBuffersMayOutliveIt) {
  auto pool = std::make_shared<BlockBufferPool>(kLarge, kNever);
  BlockBuffer buffer = pool->Take(kLarge);
  pool.reset();
  buffer.bytes().back() = std::byte{1};
}

}  // namespace
}  // namespace paddleop::volume
