#include "volume/cache/cache_options.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::volume {
namespace {

TEST(CacheOptions, EachCacheDirIsALevelWhoseDirectoriesShareItsSize) {
  auto options = ParseCacheOptions({"/mem", "/ssd0:/ssd1/"}, {"100", "2048"}, {"0.2"});
  ASSERT_OK(options);
  ASSERT_EQ(options->directories.size(), 3u);
  EXPECT_EQ(options->directories[0].path, "/mem");
  EXPECT_EQ(options->directories[0].capacity, 100u << 20);
  EXPECT_EQ(options->directories[0].level, 0u);
  EXPECT_EQ(options->directories[1].path, "/ssd0");
  EXPECT_EQ(options->directories[2].path, "/ssd1");
  EXPECT_EQ(options->directories[2].capacity, 1024u << 20);
  EXPECT_EQ(options->directories[2].level, 1u);
  EXPECT_DOUBLE_EQ(options->directories[2].free_space_ratio, 0.2);
}

TEST(CacheOptions, HasTheOfficialDefaults) {
  auto options = ParseCacheOptions({"/a,/b"}, {}, {});
  ASSERT_OK(options);
  ASSERT_EQ(options->directories.size(), 2u);
  EXPECT_EQ(options->directories[0].capacity, 50ULL << 30);
  EXPECT_DOUBLE_EQ(options->directories[0].free_space_ratio, 0.1);
  auto memory = ParseCacheOptions({"memory"}, {"300"}, {});
  ASSERT_OK(memory);
  EXPECT_TRUE(memory->directories.empty());
  EXPECT_EQ(memory->memory_bytes, 300u << 20);
  auto none = ParseCacheOptions({"/a"}, {"0"}, {});
  ASSERT_OK(none);
  EXPECT_TRUE(none->directories.empty());
}

TEST(CacheOptions, SaysWhatIsWrong) {
  EXPECT_CODE(ParseCacheOptions({"relative"}, {}, {}), Code::kInvalid);
  EXPECT_CODE(ParseCacheOptions({"/a:/a"}, {}, {}), Code::kInvalid);
  EXPECT_CODE(ParseCacheOptions({""}, {}, {}), Code::kInvalid);
  EXPECT_CODE(ParseCacheOptions({"/a"}, {"10G"}, {}), Code::kInvalid);
  EXPECT_CODE(ParseCacheOptions({"/a"}, {}, {"1"}), Code::kInvalid);
  EXPECT_CODE(ParseCacheOptions({"/a"}, {}, {"nan"}), Code::kInvalid);
  EXPECT_CODE(ParseChecksumLevel("some"), Code::kInvalid);
  auto level = ParseChecksumLevel("shrink");
  ASSERT_OK(level);
  EXPECT_EQ(ChecksumLevelName(*level), "shrink");
}

}  // namespace
}  // namespace paddleop::volume
