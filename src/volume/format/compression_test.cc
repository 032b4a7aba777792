#include "volume/format/compression.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "base/testing/matchers.h"

namespace paddleop::volume {
namespace {

class BlockCompression : public ::testing::TestWithParam<Compression> {};

TEST_P(BlockCompression, GivesBackWhatItTook) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{5}, std::size_t{100000}}) {
    std::string plain(size, 'a');
    for (std::size_t i = 0; i < size; i += 3) plain[i] = static_cast<char>(i * 31);
    const auto stored = CompressBlock(GetParam(), plain);
    ASSERT_OK(stored);
    std::vector<std::byte> out(size);
    ASSERT_OK(DecompressBlock(GetParam(), *stored, out));
    EXPECT_EQ(AsText(out), plain);
  }
}

TEST_P(BlockCompression, RefusesAWrongLength) {
  const std::string plain(1000, 'a');
  const auto stored = CompressBlock(GetParam(), plain);
  ASSERT_OK(stored);
  std::vector<std::byte> longer(1001);
  EXPECT_CODE(DecompressBlock(GetParam(), *stored, longer), Code::kCorrupt);
  std::vector<std::byte> shorter(999);
  EXPECT_CODE(DecompressBlock(GetParam(), *stored, shorter), Code::kCorrupt);
  std::vector<std::byte> exact(1000);
  EXPECT_CODE(DecompressBlock(GetParam(), stored->substr(0, stored->size() - 1), exact),
              Code::kCorrupt);
}

INSTANTIATE_TEST_SUITE_P(All, BlockCompression,
                         ::testing::Values(Compression::kNone, Compression::kLz4,
                                           Compression::kZstd));

TEST(CompressionNames, AreReadInAnyCase) {
  EXPECT_EQ(*ParseCompression(""), Compression::kNone);
  EXPECT_EQ(*ParseCompression("None"), Compression::kNone);
  EXPECT_EQ(*ParseCompression("LZ4"), Compression::kLz4);
  EXPECT_EQ(*ParseCompression("zstd"), Compression::kZstd);
  EXPECT_CODE(ParseCompression("brotli"), Code::kNotSupported);
}

}  // namespace
}  // namespace paddleop::volume
