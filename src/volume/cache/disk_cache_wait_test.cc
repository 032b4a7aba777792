// Nobody waits for long: not for other processes, nor for walks, nor for disks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <thread>

#include "volume/cache/testing/cache_fixture.h"
#include "volume/cache/testing/held_access.h"

namespace paddleop::volume {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using testing::DiskCacheTest;
using ::testing::HasSubstr;
using testing::HeldAccess;
using testing::kUuid;
using Steady = std::chrono::steady_clock;

class DiskCacheWait : public DiskCacheTest {
 protected:
  // Moves the clock on until the directory is in use, or out of it.
  bool WaitForUsable(DiskCache& cache, bool usable, std::size_t dir = 0) {
    const auto deadline = Steady::now() + 60s;
    while (cache.Status()[dir].usable != usable && Steady::now() < deadline) {
      clock_.Advance(1s);
      std::this_thread::sleep_for(5ms);
    }
    return cache.Status()[dir].usable == usable;
  }
  double Value(const std::string& name) {
    const std::string text = metrics_.Serialize();
    const auto at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }
};

TEST_F(DiskCacheWait, AStoppedProcessWithTheLockStopsNobodyElse) {
  options_.lock_patience = 500ms;
  auto cache = Open();
  ASSERT_TRUE(Put(*cache, Block(1)));
  auto other = OpenFile(Root() + "/.samplefs.lock", O_RDWR | O_CLOEXEC);
  ASSERT_OK(other);
  ASSERT_EQ(::flock(other->get(), LOCK_EX), 0);
  auto begin = Steady::now();
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 10; i < 22; ++i)
      threads.emplace_back([&, i] { EXPECT_FALSE(Put(*cache, Block(i))); });
  }
  EXPECT_LT(Steady::now() - begin, 4 * options_.lock_patience) << "they wait together";
  begin = Steady::now();
  for (std::uint64_t i = 30; i < 60; ++i) EXPECT_FALSE(Put(*cache, Block(i)));
  EXPECT_LT(Steady::now() - begin, 4 * options_.lock_patience) << "what is known is not tried";
  EXPECT_TRUE(Holds(*cache, Block(1)));
  EXPECT_TRUE(cache->Status()[0].usable);
  // It goes on.
  ASSERT_EQ(::flock(other->get(), LOCK_UN), 0);
  clock_.Advance(10s);
  EXPECT_TRUE(Put(*cache, Block(10)));
  EXPECT_TRUE(Put(*cache, Block(11)));
}

TEST_F(DiskCacheWait, NobodyWaitsForAWalk) {
  options_.recount_interval = 0s;  // no walks but the one below
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_OK(Store(*cache, Block(i), "p"));
  HeldAccess walks;
  walks.Watch(Root() + "/raw", FAN_OPEN_PERM | FAN_ONDIR);
  auto counted = std::async(std::launch::async, [&] { return cache->Recount(ctx_); });
  std::uint64_t next = 10;
  const auto begin = Steady::now();
  while (counted.wait_for(0s) != std::future_status::ready) {
    if (!walks.WaitForOne(100ms)) continue;
    // Each walk meets a change.
    auto put = std::async(std::launch::async, [&] { return Put(*cache, Block(next)); });
    const bool done = put.wait_for(5s) == std::future_status::ready;
    // As in a large directory.
    std::this_thread::sleep_until(begin + 500ms);
    walks.LetOneGo();
    ASSERT_TRUE(done) << "the walk has the lock";
    EXPECT_TRUE(put.get());
    ++next;
  }
  ASSERT_OK(counted.get());
  // Of what came meanwhile the walk may have seen a part.
  const auto blocks = next - 10 + 3;
  EXPECT_GE(cache->Usage().blocks, blocks - 1);
  EXPECT_LE(cache->Usage().blocks, blocks + 1);
  EXPECT_EQ(cache->Status()[0].pinned_bytes, 3u * (kBlock + 4096));
}

TEST_F(DiskCacheWait, ThreadsThatWaitForRoomTogetherEvictItOnce) {
  constexpr std::uint64_t kBlocks = 60, kThreads = 6;
  options_.recount_interval = 0s;
  options_.directories[0].capacity = kBlocks * (kBlock + 4096);
  auto cache = Open();
  for (std::uint64_t i = 1; i <= kBlocks; ++i) ASSERT_TRUE(Put(*cache, Block(i)));
  HeldAccess walks;
  walks.Watch(Root() + "/raw", FAN_OPEN_PERM | FAN_ONDIR);
  std::vector<std::future<Result<void>>> stores;
  for (std::uint64_t i = 1; i <= kThreads; ++i) {
    stores.push_back(
        std::async(std::launch::async, [&, i] { return Store(*cache, Block(1000 + i), "p"); }));
  }
  ASSERT_TRUE(walks.WaitForOne());
  std::this_thread::sleep_for(300ms);  // the others come to wait behind the first
  for (auto& store : stores) {
    while (store.wait_for(0s) != std::future_status::ready) {
      if (walks.WaitForOne(20ms)) walks.LetOneGo();
    }
    EXPECT_OK(store.get());
  }
  EXPECT_LT(cache->Traffic().evicted, 2 * kThreads) << "a block for each, and a little to spare";
  for (std::uint64_t i = 1; i <= kThreads; ++i) EXPECT_TRUE(cache->Contains(Block(1000 + i)));
}

TEST_F(DiskCacheWait, WhoLooksAtTheStatusDoesNotWaitForAWalk) {
  ASSERT_TRUE(Put(*Open(), Block(1)));
  std::filesystem::remove(Root() + "/.samplefs.counters");
  std::future<std::uint64_t> blocks;
  std::unique_ptr<DiskCache> cache;
  HeldAccess walks;
  walks.Watch(Root() + "/raw", FAN_OPEN_PERM | FAN_ONDIR);
  cache = Open();
  ASSERT_TRUE(walks.WaitForOne()) << "upkeep counts";
  blocks = std::async(std::launch::async, [&] { return cache->Status()[0].blocks; });
  EXPECT_EQ(blocks.wait_for(5s), std::future_status::ready);
  walks.Forget(Root() + "/raw", FAN_OPEN_PERM | FAN_ONDIR);
  walks.LetOneGo();
  while (blocks.wait_for(0s) != std::future_status::ready) {
    if (walks.WaitForOne(20ms)) walks.LetOneGo();
  }
  clock_.WaitForSleepers(2);
  EXPECT_EQ(cache->Status()[0].blocks, 1u);
  // Where nobody else counts, it is done at once.
  cache.reset();
  std::filesystem::remove(Root() + "/.samplefs.counters");
  options_.recount_interval = 0s;
  EXPECT_EQ(Open()->Status()[0].blocks, 1u);
}

TEST_F(DiskCacheWait, NobodyWaitsForWhatAnotherClearLeft) {
  std::ignore = Open();
  const std::string left = Root() + "/.samplefs.tmp/cleared-0123-1";
  ASSERT_OK(MakeDirectories(left + "/raw/chunks/0/1"));
  ASSERT_OK(WriteFileAtomic(left + "/raw/chunks/0/1/1_0_5", "12345"));
  std::future<std::unique_ptr<DiskCache>> opened;
  std::unique_ptr<DiskCache> cache;
  {
    HeldAccess removal;
    removal.Watch(left, FAN_OPEN_PERM | FAN_ONDIR);
    opened = std::async(std::launch::async, [&] { return Open(); });
    EXPECT_EQ(opened.wait_for(5s), std::future_status::ready);
    EXPECT_TRUE(removal.WaitForOne()) << "it is removed all the same";
  }
  cache = opened.get();
  for (int i = 0; i < 1000 && std::filesystem::exists(left); ++i) {
    clock_.Advance(1s);
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(Put(*cache, Block(1)));
}

TEST_F(DiskCacheWait, ADiskThatHangsIsLeftAloneUntilItAnswers) {
  options_.hang_limit = 300ms;
  for (const std::uint64_t what : {FAN_ACCESS_PERM, FAN_OPEN_PERM}) {
    warnings_.clear();
    auto cache = Open();
    for (std::uint64_t i = 1; i <= 2; ++i) ASSERT_TRUE(Put(*cache, Block(i)));
    EXPECT_TRUE(Holds(*cache, Block(2)));
    const double errors = Value("paddleop_cache_disk_errors_total");
    std::future<bool> hanging;
    HeldAccess disk;
    disk.Watch(PathOf(Block(1)), what);
    hanging = std::async(std::launch::async, [&] { return Holds(*cache, Block(1)); });
    ASSERT_TRUE(disk.WaitForOne());
    EXPECT_TRUE(Holds(*cache, Block(2)));
    ASSERT_TRUE(WaitForUsable(*cache, false));
    clock_.WaitForSleepers(2);  // both threads have said what they had to
    EXPECT_THAT(cache->Status()[0].problem, HasSubstr("hangs"));
    EXPECT_THAT(warnings_, Contains(HasSubstr(dir_->File("cache"))));
    EXPECT_EQ(Value("paddleop_cache_disk_errors_total"), errors + 1);
    EXPECT_EQ(Value("paddleop_cache_directories_out"), 1);
    // All others are told at once.
    EXPECT_EQ(Read(*cache, Block(1), 0, 10), "miss");
    EXPECT_EQ(Read(*cache, Block(2), 0, 10), "miss") << "although its file is open";
    EXPECT_EQ(cache->Find(Block(2)), nullptr);
    EXPECT_FALSE(cache->Contains(Block(2)));
    EXPECT_FALSE(Put(*cache, Block(3)));
    // And so as long as it lasts.
    for (int i = 0; i < 20; ++i) {
      clock_.Advance(1s);
      clock_.WaitForSleepers(2);
    }
    EXPECT_FALSE(cache->Status()[0].usable);
    disk.Forget(PathOf(Block(1)), what);
    disk.LetOneGo();
    EXPECT_TRUE(hanging.get()) << "what was under way comes to its end";
    ASSERT_TRUE(WaitForUsable(*cache, true));
    EXPECT_EQ(Value("paddleop_cache_directories_out"), 0);
    for (std::uint64_t i = 1; i <= 2; ++i) EXPECT_TRUE(Holds(*cache, Block(i)));
    cache->Remove(Block(1));
  }
}

TEST_F(DiskCacheWait, ADiskThatHesitatesIsPassedOver) {
  options_.answer_limit = 300ms;
  options_.directories = {{.path = dir_->File("a"), .free_space_ratio = 0},
                          {.path = dir_->File("b"), .free_space_ratio = 0, .level = 1}};
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 2; ++i) ASSERT_TRUE(Put(*cache, Block(i)));
  EXPECT_TRUE(Holds(*cache, Block(2)));
  auto file = cache->Find(Block(1));
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(InTime([&] { return cache->FindOpen(Block(2)) == nullptr; }));
  EXPECT_TRUE(cache->Status()[0].usable);
  EXPECT_FALSE(cache->Status()[0].admitting);
  EXPECT_THAT(cache->Status()[0].problem, HasSubstr("does not answer"));
  EXPECT_EQ(Read(*cache, Block(2), 0, 10), "miss") << "although its file is open";
  EXPECT_FALSE(cache->Contains(Block(2)));
  EXPECT_TRUE(Put(*cache, Block(3))) << "the other takes it";
  EXPECT_EQ(cache->Status()[1].blocks, 1u);
  EXPECT_TRUE(Holds(*cache, Block(3)));
  file.reset();
  EXPECT_TRUE(InTime([&] { return cache->FindOpen(Block(2)) != nullptr; }));
  EXPECT_TRUE(Holds(*cache, Block(2)));
  EXPECT_EQ(cache->Status()[0].problem, "");
}

TEST_F(DiskCacheWait, WhatAnotherDirectoryHasTooIsReadThere) {
  options_.answer_limit = 300ms;
  options_.directories = {{.path = dir_->File("a"), .free_space_ratio = 0},
                          {.path = dir_->File("b"), .free_space_ratio = 0, .level = 1}};
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 2; ++i) ASSERT_TRUE(Put(*cache, Block(i)));
  ASSERT_OK(cache->StoreRange(ctx_, Block(3), 0, AsBytes(Content(Block(3)).substr(0, 8192)), ""));
  const std::string range = Content(Block(3)).substr(4096, 100);
  EXPECT_TRUE(Holds(*cache, Block(2)));
  EXPECT_EQ(Read(*cache, Block(3), 4096, 100), range);
  std::filesystem::copy(
      dir_->File("a/") + kUuid, dir_->File("b/") + kUuid,
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::skip_existing);
  auto file = cache->Find(Block(1));
  ASSERT_NE(file, nullptr);
  ASSERT_TRUE(InTime([&] { return cache->FindOpen(Block(2)) == nullptr; }));
  EXPECT_TRUE(Holds(*cache, Block(2)));
  EXPECT_NE(cache->Find(Block(2)), nullptr);
  EXPECT_EQ(Read(*cache, Block(3), 4096, 100), range);
  EXPECT_TRUE(cache->ContainsRange(Block(3), 0, 8192));
  file.reset();
  EXPECT_TRUE(InTime([&] { return cache->FindOpen(Block(2)) != nullptr; }));
  EXPECT_TRUE(Holds(*cache, Block(2)));
  EXPECT_EQ(Read(*cache, Block(3), 4096, 100), range);
}

TEST_F(DiskCacheWait, WritesAndReadersOfTheirOwnAreWatchedAndOneDiskStopsNoOther) {
  options_.hang_limit = 300ms;
  options_.directories.push_back({.path = dir_->File("blocked"), .free_space_ratio = 0});
  ASSERT_OK(WriteFileAtomic(dir_->File("blocked"), "a file is in the way"));
  auto cache = Open();
  ASSERT_TRUE(Put(*cache, Block(1)));
  std::future<bool> hanging;
  HeldAccess disk;
  disk.Watch(Root() + "/.samplefs.tmp", FAN_OPEN_PERM | FAN_EVENT_ON_CHILD);
  hanging = std::async(std::launch::async, [&] { return Put(*cache, Block(2)); });
  ASSERT_TRUE(disk.WaitForOne());
  ASSERT_TRUE(WaitForUsable(*cache, false));
  // The probe hangs, too.
  disk.Watch(Root(), FAN_OPEN_PERM | FAN_EVENT_ON_CHILD);
  disk.LetOneGo();
  hanging.wait();
  for (int i = 0; i < 3000 && !disk.WaitForOne(10ms); ++i) clock_.Advance(1s);
  std::filesystem::remove(dir_->File("blocked"));
  EXPECT_TRUE(WaitForUsable(*cache, true, 1)) << "the other has its own upkeep";
  EXPECT_FALSE(cache->Status()[0].usable);
  disk.Forget(Root(), FAN_OPEN_PERM | FAN_EVENT_ON_CHILD);
  disk.LetOneGo();
  disk.Forget(Root() + "/.samplefs.tmp", FAN_OPEN_PERM | FAN_EVENT_ON_CHILD);
  ASSERT_TRUE(WaitForUsable(*cache, true));
  // Somebody who reads by himself and does not come back.
  auto file = cache->Find(Block(1));
  ASSERT_NE(file, nullptr);
  ASSERT_TRUE(WaitForUsable(*cache, false));
  file.reset();
  ASSERT_TRUE(WaitForUsable(*cache, true));
}

}  // namespace
}  // namespace paddleop::volume
