#include "volume/cache/disk_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "base/crypto.h"
#include "volume/cache/memory_cache.h"
#include "volume/cache/testing/cache_fixture.h"
#include "volume/cache/tiered_cache.h"

namespace paddleop::volume {
namespace {

using testing::DiskCacheTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kUuid;

TEST_F(DiskCacheTest, GivesBackWhatWasPutAlsoToTheNextProcess) {
  const BlockId block = Block(7, 100'000), other = Block(1'234'567, 5);
  {
    auto cache = Open();
    EXPECT_FALSE(cache->Contains(block));
    EXPECT_EQ(Read(*cache, block, 0, 10), "miss");
    EXPECT_TRUE(Put(*cache, block));
    EXPECT_TRUE(cache->Put(ctx_, other, AsBytes("hello")));
    EXPECT_TRUE(Holds(*cache, block));
    EXPECT_EQ(Read(*cache, block, 99'990, 11), "miss") << "past the end";
  }
  auto file = ReadFile(Root() + "/raw/chunks/1/1234/1234567_0_5");
  ASSERT_OK(file);
  EXPECT_EQ(HexEncode(*file), "68656c6c6f9a71bb4c") << "the official layout and checksum";
  auto cache = Open();
  EXPECT_TRUE(cache->Contains(block));
  for (const std::uint32_t offset : {0u, 1u, 32'767u, 32'768u, 40'000u, 99'999u})
    EXPECT_EQ(Read(*cache, block, offset, 1), Content(block).substr(offset, 1));
  EXPECT_EQ(Read(*cache, block, 30'000, 60'000), Content(block).substr(30'000, 60'000));
  cache->Remove(block);
  EXPECT_FALSE(cache->Contains(block));
  EXPECT_EQ(Read(*cache, block, 0, 10), "miss");
  const auto usage = cache->Usage();
  EXPECT_EQ(usage.blocks, 1u);
  EXPECT_EQ(usage.bytes, 4096u);
}

TEST_F(DiskCacheTest, DirectReadsGiveTheSameBytes) {
  options_.direct_reads = true;
  auto cache = Open();
  std::mt19937 random(std::random_device{}());
  const auto seed = random();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  random.seed(seed);
  for (const std::uint32_t length : {1u, 4096u, 4097u, 32'768u, 100'001u, kBlock}) {
    const BlockId block = Block(length, length);
    ASSERT_TRUE(Put(*cache, block));
    const std::string content = Content(block);
    for (int i = 0; i < 40; ++i) {
      const auto offset = static_cast<std::uint32_t>(random() % length);
      const auto size = 1 + random() % (length - offset);
      ASSERT_EQ(Read(*cache, block, offset, size), content.substr(offset, size));
    }
    auto file = cache->Find(block);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->length(), length);
    const auto span = file->ToRead(length / 2, 1);
    EXPECT_LE(span.offset, length / 2);
    EXPECT_GT(span.offset + span.size, length / 2);
    if (!file->direct()) continue;
    EXPECT_EQ(span.offset % 4096 + span.size % 4096, 0u) << "what O_DIRECT can read";
    std::unique_ptr<std::byte, decltype(&std::free)> memory(
        static_cast<std::byte*>(std::aligned_alloc(4096, span.size)), &std::free);
    const ssize_t got = ::pread(file->fd(), memory.get(), span.size, span.offset);
    ASSERT_GT(got, static_cast<ssize_t>(length / 2 - span.offset));
    EXPECT_TRUE(file->Verify(span.offset, {memory.get(), static_cast<std::size_t>(got)}));
  }
}

TEST_F(DiskCacheTest, TheOpenFileServesReadersThatDoTheirOwnReading) {
  auto cache = Open();
  const BlockId block = Block(3);
  ASSERT_TRUE(Put(*cache, block));
  auto file = cache->Find(block);
  ASSERT_NE(file, nullptr);
  const auto first = file->ToRead(40'000, 10);
  EXPECT_EQ(first.offset, 32'768u);
  EXPECT_EQ(first.size, 32'768u);
  std::vector<std::byte> bytes(first.size);
  ASSERT_EQ(::pread(file->fd(), bytes.data(), bytes.size(), first.offset), first.size);
  EXPECT_TRUE(file->Verify(first.offset, bytes));
  const auto again = file->ToRead(40'000, 10);
  EXPECT_EQ(again.size, 10u) << "verified once, then read as asked";
  cache->Remove(block);
  EXPECT_EQ(::pread(file->fd(), bytes.data(), bytes.size(), first.offset), first.size);
  EXPECT_EQ(cache->Find(block), nullptr);
}

TEST_F(DiskCacheTest, TrimGivesUpWhatANewOrderDoesNotShare) {
  auto cache = Open();
  auto reader = Open();  // as another process would
  const BlockId block = Block(9, 100'000);
  const std::string content = Content(block);
  const auto store = [&](std::uint32_t offset, std::uint32_t size, const char* plan) {
    return cache->StoreRange(ctx_, block, offset, AsBytes(content).subspan(offset, size), plan);
  };
  ASSERT_OK(store(0, 40'960, "order.1"));
  ASSERT_OK(store(98'304, 1696, "order.1"));
  EXPECT_EQ(Read(*reader, block, 9000, 100), content.substr(9000, 100));
  const auto before = cache->Status()[0];
  const BlockFile::Span keep[] = {{.offset = 8192, .size = 4096}, {.offset = 98'304, .size = 1696}};
  ASSERT_OK(cache->Trim(block, keep, "order."));
  for (DiskCache* each : {cache.get(), reader.get()}) {
    EXPECT_EQ(Read(*each, block, 9000, 100), content.substr(9000, 100));
    EXPECT_EQ(Read(*each, block, 98'400, 100), content.substr(98'400, 100));
    EXPECT_EQ(Read(*each, block, 100, 100), "miss");
    EXPECT_EQ(Read(*each, block, 12'000, 1000), "miss");
  }
  EXPECT_FALSE(cache->ContainsRange(block, 0, 4096));
  auto after = cache->Status()[0];
  EXPECT_EQ(after.bytes, before.bytes - 9 * 4096);
  EXPECT_EQ(after.pinned_bytes, after.bytes);
  EXPECT_EQ(cache->Traffic().corrupt, 0u) << "pages that went are no damage";
  // They can come again, and the trimmed file counts what it takes.
  ASSERT_OK(store(0, 4096, "order.2"));
  EXPECT_EQ(Read(*reader, block, 100, 100), content.substr(100, 100));
  ASSERT_OK(cache->Recount(ctx_));
  EXPECT_EQ(cache->Status()[0].bytes, after.bytes + 4096);
  // Another plan wants the block as it is.
  ASSERT_OK(store(20'480, 4096, "others.1"));
  ASSERT_OK(cache->Trim(block, keep, "order."));
  EXPECT_EQ(Read(*cache, block, 100, 100), content.substr(100, 100));
}

TEST_F(DiskCacheTest, RangesAreServedPageByPage) {
  auto cache = Open();
  const BlockId block = Block(9, 100'000);
  const std::string content = Content(block);
  const auto store = [&](std::uint32_t offset, std::uint32_t size) {
    return cache->StoreRange(ctx_, block, offset, AsBytes(content).subspan(offset, size), "plan");
  };
  ASSERT_OK(store(8192, 8192));
  ASSERT_OK(store(98'304, 1696));  // the short last page
  EXPECT_EQ(Read(*cache, block, 9000, 100), content.substr(9000, 100));
  EXPECT_EQ(Read(*cache, block, 8192, 8192), content.substr(8192, 8192));
  EXPECT_EQ(Read(*cache, block, 99'000, 1000), content.substr(99'000));
  EXPECT_EQ(Read(*cache, block, 8191, 2), "miss");
  EXPECT_EQ(Read(*cache, block, 16'383, 2), "miss");
  EXPECT_TRUE(cache->ContainsRange(block, 8192, 8192));
  EXPECT_FALSE(cache->ContainsRange(block, 0, 100));
  EXPECT_FALSE(cache->Contains(block)) << "only whole blocks";

  auto second = Open();  // as another process would
  ASSERT_OK(store(0, 4096));
  EXPECT_EQ(Read(*second, block, 100, 200), content.substr(100, 200));
  EXPECT_EQ(Read(*second, block, 9000, 100), content.substr(9000, 100));

  const auto status = cache->Status()[0];
  EXPECT_EQ(status.part_blocks, 1u);
  EXPECT_EQ(status.pinned_bytes, status.part_bytes);
  ASSERT_OK(Store(*cache, block, ""));
  EXPECT_TRUE(Holds(*second, block));
  EXPECT_EQ(cache->Status()[0].part_blocks, 0u) << "the whole block takes the ranges' place";
  EXPECT_GE(cache->Status()[0].pinned_bytes, 100'000u) << "and their pins";
}

TEST_F(DiskCacheTest, RangesThatWereRemovedAndKeptAgainAreFound) {
  auto cache = Open();
  auto other = Open();  // as another process would
  const BlockId block = Block(9, 100'000);
  const std::string content = Content(block);
  ASSERT_OK(cache->StoreRange(ctx_, block, 0, AsBytes(content).first(8192), "p"));
  EXPECT_EQ(Read(*cache, block, 0, 100), content.substr(0, 100));
  other->Remove(block);
  ASSERT_OK(other->StoreRange(ctx_, block, 16'384, AsBytes(content).subspan(16'384, 8192), "p"));
  EXPECT_EQ(Read(*cache, block, 20'000, 100), content.substr(20'000, 100));
  EXPECT_TRUE(cache->ContainsRange(block, 16'384, 8192));
  EXPECT_FALSE(cache->ContainsRange(block, 0, 100));
  EXPECT_EQ(cache->RangeBytes(block), 8192u);
}

// In the mode in which the readers have a cache of their own.
TEST_F(DiskCacheTest, DirectRangesAreNotKeptInMemoryTwice) {
  options_.direct_reads = true;
  auto cache = Open();
  const BlockId block = Block(9, 250'000);
  const std::string content = Content(block);
  ASSERT_OK(cache->StoreRange(ctx_, block, 0, AsBytes(content).first(131'072), "plan"));
  ASSERT_OK(cache->StoreRange(ctx_, block, 245'760, AsBytes(content).subspan(245'760), "plan"));
  for (const std::uint32_t offset : {0u, 1u, 4096u, 5000u, 126'976u}) {
    for (const std::size_t size : {1u, 100u, 4096u})
      EXPECT_EQ(Read(*cache, block, offset, size), content.substr(offset, size));
  }
  EXPECT_EQ(Read(*cache, block, 0, 131'072), content.substr(0, 131'072));
  EXPECT_EQ(Read(*cache, block, 249'000, 1000), content.substr(249'000)) << "the short last page";
  EXPECT_EQ(Read(*cache, block, 245'760, 4240), content.substr(245'760));
  auto file = OpenFile(PartPathOf(block), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (!file) return;  // not on this file system
  void* mapped = ::mmap(nullptr, 262'144, PROT_READ, MAP_SHARED, file->get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::vector<unsigned char> resident(250'000 / 4096);
  ASSERT_EQ(::mincore(mapped, resident.size() * 4096, resident.data()), 0);
  ::munmap(mapped, 262'144);
  EXPECT_EQ(std::ranges::count_if(resident, [](unsigned char page) { return page & 1; }), 0);
}

TEST_F(DiskCacheTest, PinnedBlocksStayAndUnpinnedOnesLeaveOldestFirst) {
  options_.directories[0].capacity = 8 * (kBlock + 4096);
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_OK(Store(*cache, Block(i), "epoch-0"));
  for (std::uint64_t i = 11; i <= 14; ++i) {
    ASSERT_TRUE(Put(*cache, Block(i)));
    const timespec times[2] = {{static_cast<time_t>(1'000 * i), 0},
                               {static_cast<time_t>(1'000 * i), 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, PathOf(Block(i)).c_str(), times, 0), 0);
  }
  EXPECT_FALSE(Put(*cache, Block(20))) << "full: a plain put does not wait for room";
  ASSERT_OK(Store(*cache, Block(20), ""));
  EXPECT_FALSE(cache->Contains(Block(11)));
  EXPECT_TRUE(cache->Contains(Block(14)));
  for (std::uint64_t i = 21; i <= 23; ++i) ASSERT_OK(Store(*cache, Block(i), "epoch-1"));
  ASSERT_OK(Store(*cache, Block(24), "epoch-1"));
  for (std::uint64_t i = 1; i <= 4; ++i) EXPECT_TRUE(cache->Contains(Block(i)));
  // Only pinned blocks are left.
  auto refused = Store(*cache, Block(30), "epoch-1");
  ASSERT_CODE(refused, Code::kNoSpace);
  EXPECT_THAT(refused.error().message(), HasSubstr("pinned"));
  EXPECT_FALSE(cache->Status()[0].admitting);
  auto plans = cache->Plans();
  ASSERT_OK(plans);
  EXPECT_THAT(*plans, ElementsAre("epoch-0", "epoch-1"));

  auto unpinned = cache->Unpin(ctx_, "epoch-0");
  ASSERT_OK(unpinned);
  EXPECT_EQ(unpinned->blocks, 4u);
  ASSERT_OK(Store(*cache, Block(30), "epoch-1"));
  EXPECT_EQ(cache->Status()[0].pinned_bytes, 5u * (kBlock + 4096));
}

TEST_F(DiskCacheTest, ABlockPinnedTwiceNeedsTwoUnpins) {
  auto cache = Open();
  const BlockId block = Block(5);
  ASSERT_OK(Store(*cache, block, "a"));
  ASSERT_OK(Store(*cache, block, "b"));
  ASSERT_OK(Store(*cache, block, "b"));
  EXPECT_EQ(cache->Status()[0].pinned_bytes, kBlock + 4096u);
  ASSERT_OK(cache->Unpin(ctx_, "a"));
  EXPECT_EQ(cache->Status()[0].pinned_bytes, kBlock + 4096u);
  ASSERT_OK(cache->Unpin(ctx_, "b"));
  EXPECT_EQ(cache->Status()[0].pinned_bytes, 0u);
  EXPECT_TRUE(Holds(*cache, block));
  auto pinned = cache->Pin(Block(6), "a");
  ASSERT_OK(pinned);
  EXPECT_FALSE(*pinned) << "nothing here to pin";
  EXPECT_CODE(cache->Pin(block, "../x"), Code::kInvalid);
  EXPECT_CODE(cache->Unpin(ctx_, ".."), Code::kInvalid);
}

TEST_F(DiskCacheTest, ClearingRemovesBlocksRangesAndPins) {
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_OK(Store(*cache, Block(i), "p"));
  ASSERT_OK(cache->StoreRange(ctx_, Block(4), 0, AsBytes(Content(Block(4))).first(8192), "p"));
  EXPECT_TRUE(Holds(*cache, Block(2)));
  auto one = cache->Clear(ctx_, Block(2), {});
  ASSERT_OK(one);
  EXPECT_EQ(one->blocks, 1u);
  EXPECT_EQ(Read(*cache, Block(2), 0, 1), "miss");
  auto rest = cache->ClearAll(ctx_);
  ASSERT_OK(rest);
  EXPECT_EQ(rest->blocks, 3u);
  const auto status = cache->Status()[0];
  EXPECT_EQ(status.blocks + status.bytes + status.pinned_bytes + status.part_blocks, 0u);
  EXPECT_EQ(Read(*cache, Block(1), 0, 1), "miss");
  EXPECT_TRUE(Put(*cache, Block(1)));
  EXPECT_TRUE(Holds(*cache, Block(1)));
}

TEST_F(DiskCacheTest, LevelsAreFilledInOrder) {
  options_.directories = {{.path = dir_->File("hdd"), .free_space_ratio = 0, .level = 1},
                          {.path = dir_->File("mem"),
                           .capacity = 2 * (kBlock + 4096),
                           .free_space_ratio = 0,
                           .level = 0}};
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(Put(*cache, Block(i)));
  const auto status = cache->Status();
  ASSERT_EQ(status.size(), 2u);
  EXPECT_EQ(status[0].directory.path, dir_->File("mem"));
  EXPECT_EQ(status[0].blocks, 2u);
  EXPECT_EQ(status[1].blocks, 2u);
  for (std::uint64_t i = 1; i <= 4; ++i) EXPECT_TRUE(Holds(*cache, Block(i)));
}

TEST_F(DiskCacheTest, DirectoriesOfALevelShareItsBlocks) {
  options_.directories = {{.path = dir_->File("a"), .free_space_ratio = 0},
                          {.path = dir_->File("b"), .free_space_ratio = 0}};
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 40; ++i) ASSERT_TRUE(Put(*cache, Block(i, 1000)));
  const auto status = cache->Status();
  EXPECT_EQ(status[0].blocks + status[1].blocks, 40u);
  EXPECT_GT(status[0].blocks, 5u);
  EXPECT_GT(status[1].blocks, 5u);
}

TEST_F(DiskCacheTest, CountersAreSharedAndCorrectedByAWalk) {
  auto one = Open(), two = Open();
  ASSERT_TRUE(Put(*one, Block(1)));
  ASSERT_TRUE(Put(*two, Block(1)));
  ASSERT_TRUE(Put(*two, Block(2)));
  EXPECT_EQ(one->Usage().blocks, 2u);
  EXPECT_TRUE(Holds(*one, Block(2)));
  EXPECT_EQ(Read(*two, Block(3), 0, 5), "miss");
  EXPECT_TRUE(InTime([&] { return one->Traffic().misses == 1; }));
  EXPECT_TRUE(InTime([&] { return two->Traffic().hits == 1; }));
  // The official client adds and removes files without telling.
  ASSERT_EQ(::unlink(PathOf(Block(1)).c_str()), 0);
  EXPECT_EQ(one->Usage().blocks, 2u);
  ASSERT_OK(one->Recount(ctx_));
  EXPECT_EQ(two->Usage().blocks, 1u);
  EXPECT_EQ(two->Usage().bytes, kBlock + 4096u);
}

TEST_F(DiskCacheTest, WhatABlockIsChargedItsRemovalGivesBack) {
  for (const ChecksumLevel level : {ChecksumLevel::kNone, ChecksumLevel::kExtend}) {
    options_.checksum = level;
    auto cache = Open();
    for (const std::uint32_t length : {1u, 4096u, 100'000u, kBlock}) {
      const BlockId block = Block(length, length);
      ASSERT_OK(Store(*cache, block, "p"));
      const auto charged = cache->Status()[0];
      ASSERT_OK(cache->Recount(ctx_));
      EXPECT_EQ(cache->Status()[0].bytes, charged.bytes) << length;
      EXPECT_EQ(cache->Status()[0].pinned_bytes, charged.pinned_bytes) << length;
      cache->Remove(block);
      EXPECT_EQ(cache->Usage().bytes, 0u) << length;
    }
  }
}

TEST_F(DiskCacheTest, ATieredCacheTriesTheMemoryFirst) {
  auto disk = Open();
  auto tiered = MakeTieredCache(MakeMemoryCache(1 << 20), disk.get(), metrics_);
  ASSERT_TRUE(tiered->Put(ctx_, Block(1), AsBytes(Content(Block(1)))));
  ASSERT_OK(disk->ClearAll(ctx_));
  EXPECT_TRUE(Holds(*tiered, Block(1)));
  EXPECT_EQ(disk->Traffic().hits, 1u) << "hits in memory belong to the shared ratio";
  tiered->Remove(Block(1));
  EXPECT_FALSE(tiered->Contains(Block(1)));
  ASSERT_TRUE(Put(*disk, Block(2)));
  EXPECT_TRUE(Holds(*tiered, Block(2)));
  const std::string counted = metrics_.Serialize();
  EXPECT_THAT(counted, HasSubstr("paddleop_cache_hits_total{tier=\"memory\"} 1\n"));
  EXPECT_THAT(counted, HasSubstr("paddleop_cache_hits_total{tier=\"disk\"} 1\n"));
  EXPECT_THAT(counted, HasSubstr("paddleop_cache_misses_total 0\n"));
}

TEST_F(DiskCacheTest, MemoryAloneCountsWhatItServesAndWhatNot) {
  auto memory = MakeTieredCache(MakeMemoryCache(1 << 20), nullptr, metrics_);
  ASSERT_TRUE(memory->Put(ctx_, Block(1, 100), AsBytes(Content(Block(1, 100)))));
  EXPECT_TRUE(Holds(*memory, Block(1, 100)));
  EXPECT_EQ(Read(*memory, Block(2, 100), 0, 10), "miss");
  const std::string counted = metrics_.Serialize();
  EXPECT_THAT(counted, HasSubstr("paddleop_cache_hits_total{tier=\"memory\"} 1\n"));
  EXPECT_THAT(counted, HasSubstr("paddleop_cache_hit_bytes_total{tier=\"memory\"} 100\n"));
  EXPECT_THAT(counted, HasSubstr("paddleop_cache_misses_total 1\n"));
  EXPECT_THAT(counted, HasSubstr("paddleop_cache_miss_bytes_total 10\n"));
}

TEST_F(DiskCacheTest, ManyThreadsAndTwoCachesAgree) {
  options_.directories[0].capacity = 24 * (kBlock + 4096);
  options_.max_open_files = 8;
  auto one = Open(), two = Open();
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      DiskCache& cache = t % 2 == 0 ? *one : *two;
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 300; ++i) {
        const BlockId block = Block(1 + random() % 40, 20'000);
        const std::string content = Content(block);
        if (const std::string read = Read(cache, block, 0, block.length); read == "miss") {
          if (random() % 2 == 0)
            std::ignore = Put(cache, block);
          else
            std::ignore = Store(cache, block, random() % 2 == 0 ? "p" : "");
        } else if (read != content) {
          ++wrong;
        }
        if (random() % 20 == 0) std::ignore = cache.Unpin(ctx_, "p");
        if (random() % 50 == 0) cache.Remove(block);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  const auto before = one->Status()[0];
  ASSERT_OK(one->Recount(ctx_));
  const auto after = one->Status()[0];
  EXPECT_EQ(before.blocks, after.blocks);
  EXPECT_EQ(before.bytes, after.bytes);
  EXPECT_EQ(before.pinned_bytes, after.pinned_bytes);
}

}  // namespace
}  // namespace paddleop::volume
