// Disks that go away while the cache is in use, and come back.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>

#include "volume/cache/internal/counters.h"
#include "volume/cache/testing/cache_fixture.h"

namespace paddleop::volume {
namespace {

namespace fs = std::filesystem;
using testing::DiskCacheTest;
using ::testing::HasSubstr;
using testing::kUuid;

class DiskCacheAway : public DiskCacheTest {
 protected:
  void SetUp() override {
    DiskCacheTest::SetUp();
    ASSERT_OK(MakeDirectories(disk_ = dir_->File("disk")));
    ASSERT_OK(MakeDirectories(mount_ = dir_->File("mount")));
    ASSERT_EQ(::mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=8m"), 0)
        << "needs the right to mount: " << std::strerror(errno);
    Mount();
  }
  void TearDown() override {
    ::umount2(mount_.c_str(), MNT_DETACH);
    ::umount2(disk_.c_str(), MNT_DETACH);
  }
  // What is on the disk stays, as on a real one.
  void Mount() { ASSERT_EQ(::mount(disk_.c_str(), mount_.c_str(), nullptr, MS_BIND, nullptr), 0); }
  void Unmount() { ASSERT_EQ(::umount2(mount_.c_str(), MNT_DETACH), 0); }
  bool WaitForUsable(DiskCache& cache, bool usable) {
    for (int i = 0; i < 1000 && cache.Status()[0].usable != usable; ++i) {
      clock_.Advance(std::chrono::seconds(3));
      ::usleep(5'000);
    }
    return cache.Status()[0].usable == usable;
  }
  // Some rounds of the upkeep.
  void LetTimePass() {
    for (int i = 0; i < 5; ++i) {
      clock_.WaitForSleepers(2);
      clock_.Advance(std::chrono::seconds(3));
    }
    clock_.WaitForSleepers(2);
  }

  std::string disk_, mount_;
};

TEST_F(DiskCacheAway, ADiskThatIsUnmountedIsNotStoodInForByTheOneBelow) {
  for (const char* folder : {"", "/cache"}) {
    SCOPED_TRACE(folder);
    options_.directories[0].path = mount_ + folder;
    auto cache = Open();
    ASSERT_TRUE(Put(*cache, Block(1)));
    Unmount();
    EXPECT_TRUE(WaitForUsable(*cache, false));
    LetTimePass();
    EXPECT_FALSE(Put(*cache, Block(2)));
    EXPECT_EQ(Read(*cache, Block(1), 0, 10), "miss");
    EXPECT_FALSE(cache->Status()[0].usable);
    EXPECT_THAT(cache->Status()[0].problem, HasSubstr("mounted"));
    EXPECT_TRUE(fs::is_empty(mount_)) << "nothing is written to the other disk";
    Mount();
    EXPECT_TRUE(WaitForUsable(*cache, true));
    EXPECT_TRUE(Holds(*cache, Block(1)));
    EXPECT_TRUE(Put(*cache, Block(2)));
    cache->Remove(Block(1));
    cache->Remove(Block(2));
    // A mount point that is gone as well.
    Unmount();
    fs::remove_all(mount_);
    EXPECT_TRUE(WaitForUsable(*cache, false));
    LetTimePass();
    EXPECT_FALSE(fs::exists(mount_));
    ASSERT_OK(MakeDirectories(mount_));
    Mount();
    EXPECT_TRUE(WaitForUsable(*cache, true));
  }
}

TEST_F(DiskCacheAway, AnotherDiskInItsPlaceIsUsed) {
  options_.directories[0].path = mount_ + "/cache";
  auto cache = Open();
  ASSERT_TRUE(Put(*cache, Block(1)));
  Unmount();
  EXPECT_TRUE(WaitForUsable(*cache, false));
  ASSERT_EQ(::mount("tmpfs", mount_.c_str(), "tmpfs", 0, "size=8m"), 0);
  EXPECT_TRUE(WaitForUsable(*cache, true));
  EXPECT_FALSE(cache->Contains(Block(1)));
  EXPECT_TRUE(Put(*cache, Block(2)));
  EXPECT_TRUE(Holds(*cache, Block(2)));
}

TEST_F(DiskCacheAway, ACacheThatWasMovedToAnotherDiskIsItself) {
  options_.directories[0].path = mount_ + "/cache";
  auto cache = Open();
  ASSERT_TRUE(Put(*cache, Block(1)));
  Unmount();
  EXPECT_TRUE(WaitForUsable(*cache, false));
  fs::copy(disk_ + "/cache", mount_ + "/cache", fs::copy_options::recursive);
  EXPECT_TRUE(WaitForUsable(*cache, true));
  EXPECT_TRUE(Holds(*cache, Block(1)));
  Mount();  // for TearDown
}

TEST_F(DiskCacheAway, ADirectoryThatWasOnlyRemovedIsMadeAnew) {
  options_.directories[0].path = mount_ + "/cache";
  auto cache = Open();
  ASSERT_TRUE(Put(*cache, Block(1)));
  fs::remove_all(mount_ + "/cache");
  bool kept = false;
  for (int i = 0; i < 1000 && !kept; ++i) {
    clock_.Advance(std::chrono::seconds(3));
    ::usleep(5'000);
    kept = Put(*cache, Block(2));
  }
  EXPECT_TRUE(kept);
  EXPECT_TRUE(Holds(*cache, Block(2)));
}

// Their page is a file of the disk, and who writes to it may wait for the disk.
TEST_F(DiskCacheAway, WhatIsReadMeanwhileIsCountedLater) {
  options_.directories[0].path = dir_->File("cache");
  auto cache = Open();
  auto other = Open();
  cache->CountHit(100);
  EXPECT_TRUE(InTime([&] { return other->Traffic().hits == 1; }));
  clock_.WaitForSleepers(4);
  const auto exchange = [&] {
    return ::renameat2(AT_FDCWD, dir_->File("cache").c_str(), AT_FDCWD, dir_->File("away").c_str(),
                       RENAME_EXCHANGE);
  };
  ASSERT_OK(WriteFileAtomic(dir_->File("away"), "not a directory"));
  ASSERT_EQ(exchange(), 0);
  EXPECT_EQ(Read(*cache, Block(1), 0, 10), "miss");
  ASSERT_FALSE(cache->Status()[0].usable);
  cache->CountHit(100);
  EXPECT_EQ(cache->Traffic().hits, 2u);
  EXPECT_EQ(cache->Traffic().misses, 1u);
  EXPECT_EQ(other->Traffic().hits, 1u);
  EXPECT_EQ(other->Traffic().misses, 0u);
  ASSERT_EQ(exchange(), 0);
}

}  // namespace
}  // namespace paddleop::volume
