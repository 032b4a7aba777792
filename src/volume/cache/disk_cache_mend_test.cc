// Pinned blocks of which the official client takes the names, as it does while it runs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "volume/cache/testing/cache_fixture.h"

namespace paddleop::volume {
namespace {

namespace fs = std::filesystem;
using testing::DiskCacheTest;

class DiskCacheMend : public DiskCacheTest {
 protected:
  static constexpr std::uint64_t kCharge = kBlock + 4096;

  // Its index knows nothing of the block: it fetches it and renames its file to the name.
  void Replace(const BlockId& block) {
    const std::string path = PathOf(block);
    fs::copy_file(path, path + ".tmp");
    fs::rename(path + ".tmp", path);
    ASSERT_EQ(fs::hard_link_count(path), 1u);
  }
  // Its index knows the block from before it was pinned: it may go.
  void Delete(const BlockId& block) { ASSERT_TRUE(fs::remove(PathOf(block))); }

  std::string PinOf(const std::string& plan, const BlockId& block) const {
    return fmt::format("{}/pinned/{}/raw/{}", Root(), plan, BlockKey(options_.layout, block));
  }
  bool IsPinned(const std::string& plan, const BlockId& block) const {
    std::error_code error;
    return fs::equivalent(PinOf(plan, block), PathOf(block), error);
  }
};

TEST_F(DiskCacheMend, ReadersFindPinnedBlocksThatLostTheirName) {
  auto cache = Open();
  auto reader = Open();  // as another process would
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_OK(Store(*cache, Block(i), "p"));
  for (std::uint64_t i = 1; i <= 3; ++i) Delete(Block(i));
  EXPECT_TRUE(Holds(*cache, Block(1)));
  EXPECT_TRUE(cache->Contains(Block(2)));
  EXPECT_TRUE(Put(*cache, Block(3)));
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_TRUE(IsPinned("p", Block(i))) << i;
  const auto status = cache->Status()[0];
  EXPECT_EQ(status.blocks, 3u);
  EXPECT_EQ(status.bytes, 3 * kCharge);
  EXPECT_EQ(status.pinned_bytes, 3 * kCharge);
  // Plans of other processes are known soon.
  fs::remove_all(Root() + "/raw/chunks");
  for (int i = 0; i < 1000 && !Holds(*reader, Block(1)); ++i) {
    clock_.Advance(std::chrono::seconds(1));
    ::usleep(10'000);
  }
  EXPECT_TRUE(Holds(*reader, Block(1)));
  EXPECT_FALSE(cache->Contains(Block(4)));
}

TEST_F(DiskCacheMend, AWalkGivesBothTheNameAndThePinBack) {
  auto cache = Open();
  ASSERT_OK(Store(*cache, Block(1), "p"));
  ASSERT_OK(Store(*cache, Block(1), "q"));
  ASSERT_OK(Store(*cache, Block(2), "p"));
  ASSERT_TRUE(Put(*cache, Block(3)));
  Replace(Block(1));
  Delete(Block(2));
  ASSERT_OK(cache->Recount(ctx_));
  EXPECT_TRUE(IsPinned("p", Block(1)));
  EXPECT_TRUE(IsPinned("q", Block(1)));
  EXPECT_TRUE(IsPinned("p", Block(2)));
  const auto status = cache->Status()[0];
  EXPECT_EQ(status.blocks, 3u);
  EXPECT_EQ(status.bytes, 3 * kCharge);
  EXPECT_EQ(status.pinned_bytes, 2 * kCharge);
  EXPECT_TRUE(Holds(*cache, Block(1)));
  EXPECT_TRUE(fs::is_empty(Root() + "/.samplefs.tmp"));
}

TEST_F(DiskCacheMend, APinnedBlockThatWasReplacedIsNotEvicted) {
  options_.directories[0].capacity = 4 * kCharge;
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_OK(Store(*cache, Block(i), "p"));
  Replace(Block(1));
  const timespec old[2] = {{1'000, 0}, {1'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, PathOf(Block(1)).c_str(), old, 0), 0);
  ASSERT_OK(Store(*cache, Block(4), ""));
  ASSERT_OK(Store(*cache, Block(5), ""));
  EXPECT_TRUE(IsPinned("p", Block(1)));
  EXPECT_FALSE(cache->Contains(Block(4)));
  // Pinning it again counts it no second time.
  Replace(Block(2));
  ASSERT_OK(Store(*cache, Block(2), "p"));
  EXPECT_TRUE(IsPinned("p", Block(2)));
  EXPECT_EQ(cache->Status()[0].pinned_bytes, 3 * kCharge);
}

TEST_F(DiskCacheMend, ClearingAndUnpinningCountWhatWasTaken) {
  auto cache = Open();
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_OK(Store(*cache, Block(i), "p"));
  Replace(Block(1));
  Delete(Block(2));
  for (std::uint64_t i = 1; i <= 2; ++i) {
    auto removed = cache->Clear(ctx_, Block(i), {});
    ASSERT_OK(removed);
    EXPECT_EQ(removed->blocks, 1u);
    EXPECT_FALSE(fs::exists(PinOf("p", Block(i))));
    EXPECT_FALSE(cache->Contains(Block(i))) << "it does not come back";
  }
  EXPECT_EQ(cache->Status()[0].blocks, 2u);
  EXPECT_EQ(cache->Status()[0].pinned_bytes, 2 * kCharge);
  Replace(Block(3));
  Delete(Block(4));
  ASSERT_OK(cache->Unpin(ctx_, "p"));
  EXPECT_EQ(cache->Status()[0].pinned_bytes, 0u);
  EXPECT_EQ(cache->Status()[0].bytes, 2 * kCharge);
  EXPECT_TRUE(Holds(*cache, Block(4))) << "it stays while there is room";
  ASSERT_OK(cache->Recount(ctx_));
  EXPECT_EQ(cache->Status()[0].bytes, 2 * kCharge);
}

}  // namespace
}  // namespace paddleop::volume
