#include "volume/cache/memory_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/bytes.h"

namespace paddleop::volume {
namespace {

const Context kCtx = Context::Background();

std::string ReadAt(CacheStore& cache, const BlockId& block, std::uint32_t offset,
                   std::size_t size) {
  std::string out(size, '\0');
  if (!cache.Read(kCtx, block, offset, std::as_writable_bytes(std::span(out)))) return "miss";
  return out;
}

TEST(MemoryCache, GivesBackWhatWasPut) {
  auto cache = MakeMemoryCache(1024);
  const BlockId block{.slice = 7, .index = 0, .length = 5};
  EXPECT_EQ(ReadAt(*cache, block, 0, 5), "miss");
  EXPECT_TRUE(cache->Put(kCtx, block, AsBytes("hello")));
  EXPECT_EQ(ReadAt(*cache, block, 1, 3), "ell");
  EXPECT_EQ(ReadAt(*cache, block, 3, 3), "miss") << "past the end of the block";
  cache->Remove(block);
  EXPECT_FALSE(cache->Contains(block));
  EXPECT_EQ(cache->Usage().bytes, 0u);
}

TEST(MemoryCache, TheLeastRecentlyReadLeavesFirst) {
  auto cache = MakeMemoryCache(10);
  const BlockId a{.slice = 1, .length = 5}, b{.slice = 2, .length = 5}, c{.slice = 3, .length = 5};
  EXPECT_TRUE(cache->Put(kCtx, a, AsBytes("aaaaa")));
  EXPECT_TRUE(cache->Put(kCtx, b, AsBytes("bbbbb")));
  EXPECT_EQ(ReadAt(*cache, a, 0, 5), "aaaaa");
  EXPECT_TRUE(cache->Put(kCtx, c, AsBytes("ccccc")));
  EXPECT_TRUE(cache->Contains(a));
  EXPECT_FALSE(cache->Contains(b));
  EXPECT_EQ(cache->Usage().blocks, 2u);
}

TEST(MemoryCache, WhatCannotFitIsRefused) {
  auto cache = MakeMemoryCache(4);
  EXPECT_FALSE(cache->Put(kCtx, {.slice = 1, .length = 5}, AsBytes("hello")));
  EXPECT_EQ(cache->Usage().blocks, 0u);
}

}  // namespace
}  // namespace paddleop::volume
