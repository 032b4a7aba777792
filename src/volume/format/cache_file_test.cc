#include "volume/format/cache_file.h"

#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/testing/matchers.h"

namespace paddleop::volume {
namespace {

TEST(CacheFile, MatchesTheGoldenTrailer) {
  EXPECT_EQ(HexEncode(CacheTrailer("hello")), "9a71bb4c");
  EXPECT_EQ(CacheFilePath("chunks/0/0/1_0_5"), "raw/chunks/0/0/1_0_5");
}

TEST(CacheFile, OneChecksumPerPiece) {
  const std::string block(kCacheChecksumSpan + 1, 'x');
  std::string trailer = CacheTrailer(block);
  ASSERT_EQ(trailer.size(), 8U);
  EXPECT_OK(VerifyCacheTrailer(block, trailer));
  EXPECT_OK(VerifyCacheTrailer(block, ""));
  EXPECT_CODE(VerifyCacheTrailer(block, trailer.substr(0, 4)), Code::kCorrupt);
  trailer[7] = static_cast<char>(trailer[7] ^ 1);
  EXPECT_CODE(VerifyCacheTrailer(block, trailer), Code::kCorrupt);
}

}  // namespace
}  // namespace paddleop::volume
