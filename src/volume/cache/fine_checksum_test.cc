#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "volume/cache/testing/cache_fixture.h"

namespace paddleop::volume {
namespace {

using testing::DiskCacheTest;

// The middle of a block that is long enough for finer checksums: bytes 200,000 to 299,999.
class FineChecksumTest : public DiskCacheTest {
 protected:
  void SetUp() override {
    DiskCacheTest::SetUp();
    options_.layout.block_size = 4U << 20;
    ASSERT_TRUE(Put(*Open(), block_));
    path_ = PathOf(block_);
    std::array<char, 4096> value;
    ASSERT_GT(::getxattr(path_.c_str(), kFineChecksumXattr, value.data(), value.size()), 0)
        << std::strerror(errno);
  }
  void Change(off_t at) {
    const UniqueFd fd(::open(path_.c_str(), O_RDWR));
    ASSERT_EQ(::pwrite(fd.get(), "\x5a\xa5", 2, at), 2);
  }
  void ExpectMiddle(DiskCache& cache) {
    EXPECT_TRUE(Read(cache, block_, 200'000, 100'000) == Content(block_).substr(200'000, 100'000));
  }

  const BlockId block_ = Block(5, 3'000'001);
  std::string path_;
};

TEST_F(FineChecksumTest, LittleMoreIsReadThanAskedFor) {
  for (const bool direct : {false, true}) {
    options_.direct_reads = direct;
    auto cache = Open();
    const auto file = cache->Find(block_);
    ASSERT_NE(file, nullptr);
    const auto span = file->ToRead(200'000, 100'000);
    EXPECT_EQ(span.offset, 196'608u);
    EXPECT_EQ(span.offset + span.size, 303'104u);
    ExpectMiddle(*cache);
    EXPECT_LE(file->ToRead(200'000, 100'000).size, 106'496u) << "verified";
    const auto last = file->ToRead(3'000'000, 1);
    EXPECT_EQ(last.offset, 2'998'272u);
    EXPECT_EQ(Read(*cache, block_, 3'000'000, 1), Content(block_).substr(3'000'000, 1));
    EXPECT_TRUE(Holds(*cache, block_));
  }
}

TEST_F(FineChecksumTest, DamageIsFoundWhereItIsRead) {
  Change(300'500);  // after what is asked for, within the last 8 KiB of it
  auto cache = Open();
  EXPECT_EQ(Read(*cache, block_, 200'000, 100'000), "miss");
  EXPECT_FALSE(cache->Contains(block_)) << "and the file is removed";
}

TEST_F(FineChecksumTest, DamageElsewhereDoesNoHarm) {
  Change(303'200);  // within the last 32 KiB of it, but after its last 8 KiB
  auto cache = Open();
  ExpectMiddle(*cache);
  EXPECT_EQ(Read(*cache, block_, 0, block_.length), "miss");
}

TEST_F(FineChecksumTest, WithoutThemThoseInTheFileDecide) {
  const auto expect_all = [&] {
    auto cache = Open();
    ExpectMiddle(*cache);
    EXPECT_TRUE(Holds(*cache, block_));
  };
  const std::string wrong(4 * 367, 'x');
  ASSERT_EQ(::setxattr(path_.c_str(), kFineChecksumXattr, wrong.data(), wrong.size(), 0), 0);
  expect_all();
  ASSERT_EQ(::setxattr(path_.c_str(), kFineChecksumXattr, "short", 5, 0), 0);
  expect_all();
  ASSERT_EQ(::removexattr(path_.c_str(), kFineChecksumXattr), 0);
  expect_all();
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

}  // namespace
}  // namespace paddleop::volume
