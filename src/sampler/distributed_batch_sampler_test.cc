#include "sampler/distributed_batch_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/testing/matchers.h"

namespace paddleop::sampler {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// FNV-1a over the little-endian 64-bit indices, with the offset basis the golden values were made
// with.
std::uint64_t Fingerprint(const std::vector<SampleIndex>& order) {
  std::uint64_t hash = 1469598103934665603u;
  for (std::uint64_t index : order) {
    for (int byte = 0; byte < 8; ++byte) {
      hash ^= (index >> (8 * byte)) & 0xff;
      hash *= 1099511628211u;
    }
  }
  return hash;
}

TEST(NumpyPermutation, IsNumpys) {
  EXPECT_THAT(NumpyPermutation(2, 0), ElementsAre(1, 0));
  EXPECT_THAT(NumpyPermutation(2, 1), ElementsAre(0, 1));
  EXPECT_THAT(NumpyPermutation(10, 0), ElementsAre(2, 8, 4, 9, 1, 6, 7, 3, 0, 5));
  EXPECT_THAT(NumpyPermutation(10, 4294967295u), ElementsAre(6, 9, 5, 1, 8, 0, 7, 4, 2, 3));
  EXPECT_EQ(Fingerprint(NumpyPermutation(10, 0)), 0x8ed581fcdad57862u);
  EXPECT_EQ(Fingerprint(NumpyPermutation(1000, 0)), 0x09cb22a79a7db363u);
  EXPECT_EQ(Fingerprint(NumpyPermutation(1000, 1)), 0x82943762a19e3f1fu);
  EXPECT_EQ(Fingerprint(NumpyPermutation(1281167, 89)), 0x45a0b29e457f011fu);
  EXPECT_TRUE(NumpyPermutation(0, 0).empty());
}

struct Golden {
  SamplerOptions options;
  std::vector<std::vector<SampleIndex>> ranks;
};

TEST(RankOrder, IsPaddles) {
  const SamplerOptions base = {.samples = 23, .ranks = 3, .batch_size = 4, .shuffle = true};
  auto epoch = [&](std::uint32_t e) {
    SamplerOptions o = base;
    o.epoch = e;
    return o;
  };
  const std::vector<Golden> golden = {
      {epoch(0),
       {{11, 10, 22, 14, 4, 2, 5, 18}, {20, 1, 13, 0, 9, 7, 19, 3}, {16, 8, 6, 17, 0, 21, 15, 12}}},
      {epoch(1),
       {{13, 18, 3, 14, 21, 1, 16, 0}, {20, 17, 10, 4, 15, 0, 22, 9}, {2, 19, 6, 7, 8, 12, 11, 5}}},
      {epoch(2),
       {{21, 0, 22, 6, 17, 1, 2, 7}, {14, 16, 3, 12, 20, 19, 18, 11}, {9, 4, 10, 5, 0, 13, 15, 8}}},
      {{.samples = 26, .ranks = 3, .batch_size = 4, .shuffle = true},
       {{2, 24, 14, 17, 10, 0, 25, 8, 21},
        {5, 11, 23, 13, 6, 4, 18, 9, 15},
        {19, 20, 16, 1, 7, 22, 3, 0, 12}}},
      {{.samples = 26, .ranks = 3, .batch_size = 4, .shuffle = true, .drop_last = true},
       {{2, 24, 14, 17, 10, 0, 25, 8}, {5, 11, 23, 13, 6, 4, 18, 9}, {19, 20, 16, 1, 7, 22, 3, 0}}},
      {{.samples = 10, .ranks = 2, .batch_size = 3, .shuffle = true, .epoch = 7},
       {{8, 5, 0, 7, 3}, {2, 1, 9, 6, 4}}},
      {{.samples = 10, .ranks = 2, .batch_size = 3}, {{0, 1, 2, 6, 7}, {3, 4, 5, 8, 9}}},
  };
  for (const Golden& g : golden) {
    auto all = AllRankOrders(g.options);
    ASSERT_OK(all);
    for (std::uint32_t rank = 0; rank < g.options.ranks; ++rank) {
      EXPECT_THAT((*all)[rank], ElementsAreArray(g.ranks[rank]));
      EXPECT_EQ(*RankOrder(g.options, rank), (*all)[rank]);
    }
  }
}

TEST(RankOrder, EveryRankGetsAsManyAndEverySampleIsRead) {
  for (std::uint64_t samples : {1u, 2u, 7u, 100u}) {
    for (std::uint32_t ranks : {1u, 2u, 3u, 8u, 150u}) {
      for (std::uint32_t batch : {1u, 3u, 64u}) {
        auto all = AllRankOrders(
            {.samples = samples, .ranks = ranks, .batch_size = batch, .shuffle = true});
        ASSERT_OK(all);
        std::set<SampleIndex> seen;
        for (const auto& share : *all) {
          EXPECT_EQ(share.size(), (samples + ranks - 1) / ranks);
          seen.insert(share.begin(), share.end());
        }
        EXPECT_EQ(seen.size(), samples);
      }
    }
  }
}

TEST(RankOrder, NamesWhatIsOutOfRange) {
  EXPECT_CODE(RankOrder({.samples = 0}, 0), Code::kInvalid);
  EXPECT_CODE(RankOrder({.samples = 4, .ranks = 0}, 0), Code::kInvalid);
  EXPECT_CODE(RankOrder({.samples = 4, .batch_size = 0}, 0), Code::kInvalid);
  EXPECT_CODE(RankOrder({.samples = 4, .ranks = 2}, 2), Code::kInvalid);
  EXPECT_CODE(RankOrder({.samples = 1ull << 32}, 0), Code::kInvalid);
}

TEST(Shares, CutAllAndShareNeighbours) {
  std::uint64_t next = 0;
  for (std::uint32_t part = 0; part < 7; ++part) {
    const auto [begin, end] = ContiguousShare(100, 7, part);
    EXPECT_EQ(begin, next);
    next = end;
  }
  EXPECT_EQ(next, 100u);
  std::vector<std::uint32_t> partitions;
  for (std::uint32_t rank = 0; rank < 4; ++rank) partitions.push_back(PartitionOfRank(rank, 4, 2));
  EXPECT_THAT(partitions, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(PartitionOfRank(1, 2, 4), 1u);
}

}  // namespace
}  // namespace paddleop::sampler
