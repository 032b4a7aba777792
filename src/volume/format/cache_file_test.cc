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

TEST(CacheFile, FinerChecksumsGiveTheSameTrailer) {
  std::string block(kMaxFineBlock, '\0');
  std::uint32_t random = 7;
  for (char& c : block) c = static_cast<char>((random = random * 1'103'515'245 + 12'345) >> 16);
  for (const std::size_t size : {kMinFineBlock, kMinFineBlock + 1, kMinFineBlock + 40'000,
                                 kMaxFineBlock - 32'767, kMaxFineBlock}) {
    const auto part = std::string_view(block).substr(0, size);
    const std::string fine = FineChecksums(part);
    ASSERT_FALSE(fine.empty());
    EXPECT_TRUE(CacheTrailer(part, fine) == CacheTrailer(part)) << size;
  }
}

}  // namespace
}  // namespace paddleop::volume
