#include "volume/vfs/internal/read_buffers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace paddleop::volume {
namespace {

bool IsAligned(const ReadBuffers::Lease& lease) {
  return reinterpret_cast<std::uintptr_t>(lease.bytes().data()) % 4096 == 0;
}

TEST(ReadBuffers, TheLowestFreeMemoryIsTaken) {
  ReadBuffers buffers;
  auto first = buffers.TryTake(100'000);
  const auto second = buffers.TryTake(160'000);
  std::byte* const lowest = first->bytes().data();
  EXPECT_TRUE(IsAligned(*first));
  EXPECT_EQ(second->bytes().data(), lowest + ReadBuffers::kPiece);
  EXPECT_EQ(second->bytes().size(), 160'000u);
  first.reset();
  // Two pieces do not fit before the second.
  const auto third = buffers.TryTake(200'000);
  EXPECT_EQ(third->bytes().data(), lowest + 3 * ReadBuffers::kPiece);
  const auto fourth = buffers.TryTake(1);
  EXPECT_EQ(fourth->bytes().data(), lowest);
}

TEST(ReadBuffers, ThereIsNoMoreThanThereIs) {
  ReadBuffers buffers;
  std::vector<ReadBuffers::Lease> leases;
  for (std::size_t i = 0; i < ReadBuffers::kPieces; ++i) {
    auto lease = buffers.TryTake(ReadBuffers::kPiece);
    ASSERT_TRUE(lease);
    EXPECT_TRUE(IsAligned(*lease));
    std::memset(lease->bytes().data(), static_cast<int>(i), lease->bytes().size());
    leases.push_back(std::move(*lease));
  }
  for (std::size_t i = 0; i < leases.size(); ++i)
    EXPECT_EQ(leases[i].bytes().back(), static_cast<std::byte>(i));
  EXPECT_FALSE(buffers.TryTake(1));
  leases.pop_back();
  EXPECT_FALSE(buffers.TryTake(ReadBuffers::kPiece + 1));
  EXPECT_TRUE(buffers.TryTake(1));
  leases.clear();
  EXPECT_FALSE(buffers.TryTake(ReadBuffers::kMost + 1));
  EXPECT_TRUE(buffers.TryTake(ReadBuffers::kMost));
}

TEST(ReadBuffers, ThreadsDoNotGetTheSame) {
  ReadBuffers buffers;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 1; t <= 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const auto lease = buffers.TryTake(static_cast<std::size_t>(t) * 60'000);
        ASSERT_TRUE(lease);
        std::memset(lease->bytes().data(), t, lease->bytes().size());
        for (const std::byte byte : lease->bytes()) {
          if (byte != static_cast<std::byte>(t)) ++wrong;
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace paddleop::volume
