#include "volume/vfs/internal/stream_table.h"

#include <gtest/gtest.h>

namespace paddleop::volume {
namespace {

constexpr std::uint64_t kBlock = 1000, kMost = 8000;

// Reads the next bytes of the file; how far they are fetched ahead.
std::uint64_t Next(StreamTable& streams, Ino ino, std::uint64_t at) {
  const auto ahead = streams.Note(ino, at * 100, (at + 1) * 100, kMost);
  return ahead.to > ahead.from ? ahead.to - ahead.from : 0;
}

TEST(StreamTable, ManyStreamsDoNotDisturbEachOther) {
  StreamTable streams(kBlock);
  for (std::uint64_t at = 0; at < 5; ++at) {
    for (std::uint64_t ino = 1; ino <= 40; ++ino) {
      // Numbers that are as many apart as a table may have places.
      EXPECT_EQ(Next(streams, Ino{ino * 61}, at), at == 0 ? kBlock : 100) << ino << " at " << at;
    }
  }
}

TEST(StreamTable, WhoHasNotReadForLongestIsForgotten) {
  StreamTable streams(kBlock);
  constexpr Ino kOld{1000}, kBusy{1001};
  Next(streams, kOld, 0);
  Next(streams, kBusy, 0);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    Next(streams, Ino{i}, 0);
    EXPECT_GT(Next(streams, kBusy, i), 0u) << i;
  }
  EXPECT_EQ(Next(streams, kOld, 1), 0u) << "it is no stream any more";
}

}  // namespace
}  // namespace paddleop::volume
