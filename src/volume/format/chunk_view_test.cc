#include "volume/format/chunk_view.h"

#include <gtest/gtest.h>

#include <random>

namespace paddleop::volume {
namespace {

using Ranges = std::vector<ZeroRange>;
constexpr auto kChunk = static_cast<std::uint32_t>(kChunkSize);

TEST(ChunkView, NoRecordsReadAsZeros) {
  EXPECT_EQ(BuildChunkView({}, 10), (std::vector<Slice>{{.pos = 0, .len = 10}}));
  EXPECT_TRUE(BuildChunkView({}, 0).empty());
}

TEST(ChunkView, LaterRecordsWinAndCutTheirNeighbours) {
  const std::vector<Slice> records = {{.pos = 0, .id = 1, .size = 10, .off = 0, .len = 10},
                                      {.pos = 3, .id = 2, .size = 4, .off = 0, .len = 4}};
  EXPECT_EQ(BuildChunkView(records, 12),
            (std::vector<Slice>{{.pos = 0, .id = 1, .size = 10, .off = 0, .len = 3},
                                {.pos = 3, .id = 2, .size = 4, .off = 0, .len = 4},
                                {.pos = 7, .id = 1, .size = 10, .off = 7, .len = 3},
                                {.pos = 10, .id = 0, .size = 0, .off = 0, .len = 2}}));
}

TEST(ChunkView, IsClippedToTheLength) {
  const std::vector<Slice> records = {{.pos = 2, .id = 1, .size = 10, .off = 0, .len = 10}};
  EXPECT_EQ(BuildChunkView(records, 5),
            (std::vector<Slice>{{.pos = 0, .len = 2},
                                {.pos = 2, .id = 1, .size = 10, .off = 0, .len = 3}}));
}

// Paints every byte and compares.
TEST(ChunkView, AgreesWithPaintingBytes) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr std::uint32_t kLength = 64;
  for (int round = 0; round < 500; ++round) {
    std::vector<Slice> records;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> painted(kLength);
    const int count = static_cast<int>(random() % 12);
    for (int i = 1; i <= count; ++i) {
      Slice slice;
      slice.pos = static_cast<std::uint32_t>(random() % kLength);
      slice.len = static_cast<std::uint32_t>(random() % (kLength - slice.pos + 1));
      slice.id = random() % 4 == 0 ? 0 : static_cast<std::uint64_t>(i);
      slice.off = slice.id == 0 ? 0 : static_cast<std::uint32_t>(random() % 5);
      slice.size = slice.id == 0 ? 0 : slice.off + slice.len;
      records.push_back(slice);
      for (std::uint32_t b = 0; b < slice.len; ++b) {
        painted[slice.pos + b] = {slice.id, slice.id == 0 ? 0 : slice.off + b};
      }
    }
    std::uint32_t at = 0;
    for (const Slice& piece : BuildChunkView(records, kLength)) {
      ASSERT_EQ(piece.pos, at);
      ASSERT_GT(piece.len, 0U);
      for (std::uint32_t b = 0; b < piece.len; ++b, ++at) {
        const std::pair<std::uint64_t, std::uint32_t> expected(piece.id,
                                                               piece.id == 0 ? 0 : piece.off + b);
        ASSERT_EQ(painted[at], expected) << "byte " << at;
      }
    }
    ASSERT_EQ(at, kLength);
  }
}

TEST(TruncationRanges, WithinOneChunk) {
  EXPECT_EQ(TruncationRanges(10, 4, {}), (Ranges{{.index = 0, .pos = 4, .len = 6}}));
  EXPECT_EQ(TruncationRanges(4, 10, {}), (Ranges{{.index = 0, .pos = 4, .len = 6}}));
  EXPECT_TRUE(TruncationRanges(4, 4, {}).empty());
}

TEST(TruncationRanges, AcrossChunksTouchOnlyExistingOnesBetween) {
  const std::vector<std::uint32_t> existing = {0, 2, 4};
  EXPECT_EQ(TruncationRanges(100, 4 * kChunkSize + 7, existing),
            (Ranges{{.index = 0, .pos = 100, .len = kChunk - 100},
                    {.index = 2, .pos = 0, .len = kChunk},
                    {.index = 4, .pos = 0, .len = 7}}));
  EXPECT_EQ(TruncationRanges(kChunkSize, 0, {}), (Ranges{{.index = 0, .pos = 0, .len = kChunk}}));
}

TEST(PunchRanges, AreSplitAtChunks) {
  EXPECT_EQ(PunchRanges(kChunkSize - 1, 3),
            (Ranges{{.index = 0, .pos = kChunk - 1, .len = 1}, {.index = 1, .pos = 0, .len = 2}}));
}

}  // namespace
}  // namespace paddleop::volume
