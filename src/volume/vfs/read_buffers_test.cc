#include "volume/vfs/internal/read_buffers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace paddleop::volume {
namespace {

bool IsAligned(const ReadBuffers::Lease& lease) {
  return reinterpret_cast<std::uintptr_t>(lease.bytes().data()) % 4096 == 0;
}

TEST(ReadBuffers, TheLowestFreeMemoryIsTaken) {
  ReadBuffers buffers;
  std::optional<ReadBuffers::Lease> first(buffers.Take(100'000));
  const ReadBuffers::Lease second = buffers.Take(160'000);
  std::byte* const lowest = first->bytes().data();
  EXPECT_EQ(second.bytes().data(), lowest + ReadBuffers::kPiece);
  EXPECT_EQ(second.bytes().size(), 160'000u);
  first.reset();
  // Two pieces do not fit before the second.
  const ReadBuffers::Lease third = buffers.Take(200'000);
  EXPECT_EQ(third.bytes().data(), lowest + 3 * ReadBuffers::kPiece);
  const ReadBuffers::Lease fourth = buffers.Take(1);
  EXPECT_EQ(fourth.bytes().data(), lowest);
}

TEST(ReadBuffers, WhatDoesNotFitGetsMemoryOfItsOwn) {
  ReadBuffers buffers;
  std::vector<ReadBuffers::Lease> leases;
  std::set<std::byte*> places;
  for (int i = 0; i < 80; ++i) {
    leases.push_back(buffers.Take(ReadBuffers::kPiece));
    EXPECT_TRUE(IsAligned(leases.back()));
    EXPECT_TRUE(places.insert(leases.back().bytes().data()).second);
    std::memset(leases.back().bytes().data(), i, leases.back().bytes().size());
  }
  for (std::size_t i = 0; i < leases.size(); ++i)
    EXPECT_EQ(leases[i].bytes().back(), static_cast<std::byte>(i));
  const ReadBuffers::Lease huge = buffers.Take(20U << 20);
  EXPECT_TRUE(IsAligned(huge));
  const ReadBuffers::Lease none = buffers.Take(0);
  EXPECT_TRUE(none.bytes().empty());
}

TEST(ReadBuffers, ThreadsDoNotGetTheSame) {
  ReadBuffers buffers;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 1; t <= 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const ReadBuffers::Lease lease = buffers.Take(static_cast<std::size_t>(t) * 60'000);
        std::memset(lease.bytes().data(), t, lease.bytes().size());
        for (const std::byte byte : lease.bytes()) {
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
