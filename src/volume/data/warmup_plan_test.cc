#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sampler/distributed_batch_sampler.h"
#include "volume/data/testing/packed_volume.h"
#include "volume/data/warmup.h"

namespace paddleop::volume::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PackedVolume;

const Context kCtx = Context::Background();

class WarmupPlanTest : public ::testing::Test {
 protected:
  Result<Warmup> Plan(const WarmupSelection& selection) {
    auto volume = packed_.Open();
    return LoadWarmup(kCtx, *volume, selection);
  }
  // Numbers of the planned files, in order.
  static std::vector<int> FilesOf(const Warmup& warmup) {
    std::map<Tree::NodeIndex, int> numbers;
    const auto walk = [&](const auto& self, Tree::NodeIndex node) -> void {
      for (std::size_t i = 0; i < warmup.tree.child_count(node); ++i) {
        const auto child = warmup.tree.child(node, i);
        if (child.name.starts_with("f"))
          numbers[child.node] = std::stoi(std::string(child.name.substr(1)));
        self(self, child.node);
      }
    };
    walk(walk, warmup.tree.Find(warmup.tree.root()));
    std::vector<int> files;
    for (const auto node : warmup.plan.nodes) files.push_back(numbers.at(node));
    return files;
  }

  PackedVolume packed_;
};

TEST_F(WarmupPlanTest, AllOfAFolderIsItsBlocksEachOnce) {
  packed_.AddPacked("a", 30);
  packed_.AddPacked("b", 12);
  auto all = Plan({});
  ASSERT_OK(all);
  EXPECT_EQ(all->plan.files, 42u);
  EXPECT_EQ(all->plan.blocks.size(), 4u);
  for (const auto& block : all->plan.blocks) EXPECT_TRUE(block.whole);
  auto one = Plan({.paths = {"/b/"}});
  ASSERT_OK(one);
  EXPECT_EQ(one->plan.files, 12u);
  EXPECT_EQ(one->plan.blocks.size(), 1u);
  EXPECT_EQ(one->plan.file_bytes, 12u * PackedVolume::kFile);
  auto both = Plan({.paths = {"a", "a/f0001", "b/f0000"}});
  ASSERT_OK(both);
  EXPECT_EQ(both->plan.files, 31u);
  EXPECT_CODE(Plan({.paths = {"a", "c"}}), Code::kNotFound);
  EXPECT_CODE(Plan({.paths = {"c"}}), Code::kNotFound);
}

TEST_F(WarmupPlanTest, LessThanHalfOfABlockIsPlannedAsRanges) {
  packed_.AddPacked("a", 12);
  auto plan = Plan({.paths = {"a/f0000", "a/f0001", "a/f0005"}});
  ASSERT_OK(plan);
  ASSERT_EQ(plan->plan.blocks.size(), 1u);
  const PlannedBlock& block = plan->plan.blocks[0];
  EXPECT_FALSE(block.whole);
  EXPECT_THAT(block.ranges,
              ElementsAre(BlockRange{0, 2 * PackedVolume::kPlace},
                          BlockRange{5 * PackedVolume::kPlace, 6 * PackedVolume::kPlace}));
  EXPECT_EQ(plan->plan.cache_bytes, 3u * PackedVolume::kPlace);
  auto half = Plan({.paths = {"a/f0000", "a/f0002", "a/f0004", "a/f0006", "a/f0008", "a/f0010"}});
  ASSERT_OK(half);
  EXPECT_TRUE(half->plan.blocks[0].whole);
}

TEST_F(WarmupPlanTest, ARankGetsExactlyWhatItsSamplerReads) {
  packed_.AddPacked("train", 26);
  for (const bool random : {false, true}) {
    std::set<int> together;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      auto plan = Plan({.paths = {"train"},
                        .strategy = random ? WarmupStrategy::kRandom : WarmupStrategy::kSequence,
                        .ranks = 3,
                        .batch_size = 4,
                        .epoch = 5,
                        .rank = rank});
      ASSERT_OK(plan);
      auto order = sampler::RankOrder(
          {.samples = 26, .ranks = 3, .batch_size = 4, .shuffle = random, .epoch = 5}, rank);
      ASSERT_OK(order);
      std::vector<int> expected;
      for (const auto index : *order) {
        if (std::find(expected.begin(), expected.end(), static_cast<int>(index)) == expected.end())
          expected.push_back(static_cast<int>(index));
      }
      EXPECT_EQ(FilesOf(*plan), expected) << rank << " " << random;
      together.insert(expected.begin(), expected.end());
    }
    EXPECT_EQ(together.size(), 26u);
  }
}

TEST_F(WarmupPlanTest, ContiguousSharesAndNeighbouringRanksOfAPartition) {
  packed_.AddPacked("train", 10);
  auto share = Plan({.strategy = WarmupStrategy::kSequence, .ranks = 3, .rank = 1});
  ASSERT_OK(share);
  EXPECT_THAT(FilesOf(*share), ElementsAre(4, 5, 6));
  auto partition =
      Plan({.strategy = WarmupStrategy::kSequence, .ranks = 5, .partition = 0, .partitions = 2});
  ASSERT_OK(partition);
  EXPECT_THAT(FilesOf(*partition), ElementsAre(0, 1, 2, 3, 4, 5)) << "ranks 0, 1 and 2";
  auto rest = Plan({.strategy = WarmupStrategy::kSequence, .partition = 1, .partitions = 2});
  ASSERT_OK(rest);
  EXPECT_THAT(FilesOf(*rest), ElementsAre(5, 6, 7, 8, 9)) << "as many ranks as partitions";
}

TEST_F(WarmupPlanTest, AListNumbersTheSamples) {
  packed_.AddPacked("train", 8);
  const std::string list =
      "train/f0007 3\n"
      "./train/f0001\t0\r\n"
      "\n"
      "train/nothing 1\n"
      "/train/f0003\n";
  auto all = Plan({.list = list});
  ASSERT_OK(all);
  EXPECT_THAT(FilesOf(*all), ElementsAre(7, 1, 3));
  ASSERT_EQ(all->plan.failures.size(), 1u);
  EXPECT_THAT(all->plan.failures[0].path, HasSubstr("train/nothing"));
  EXPECT_THAT(all->plan.failures[0].error.message(), HasSubstr("line 4"));
  auto second = Plan({.list = list, .strategy = WarmupStrategy::kSequence, .ranks = 2, .rank = 1});
  ASSERT_OK(second);
  EXPECT_THAT(FilesOf(*second), ElementsAre(3)) << "the missing line keeps its number";
  auto based = Plan({.paths = {"train"}, .list = "f0002 1\nf0000 0"});
  ASSERT_OK(based);
  EXPECT_THAT(FilesOf(*based), ElementsAre(2, 0));
  auto labelled =
      Plan({.paths = {"train"}, .list = "f0004 0 1 1\nf0005\ttwo words\nf0006  [1, 2]"});
  ASSERT_OK(labelled);
  EXPECT_THAT(FilesOf(*labelled), ElementsAre(4, 5, 6)) << "several labels, or a text";
}

TEST_F(WarmupPlanTest, SamplesAreNumberedInByteOrderOfPaths) {
  auto volume = packed_.Open();
  for (const char* name : {"f3", "f1"}) {
    ASSERT_OK(volume->meta().Mkdir(kCtx, {}, kRootIno, name, 0755));
    auto dir = volume->meta().Lookup(kCtx, {}, kRootIno, name);
    ASSERT_OK(volume->meta().Mknod(kCtx, {}, dir->ino, fmt::format("{}0", name), FileType::kFile,
                                   0644, 0));
  }
  // '.' sorts before '/', so f1.x (number 1) comes before f1/f10.
  ASSERT_OK(volume->meta().Mknod(kCtx, {}, kRootIno, "f1.x", FileType::kFile, 0644, 0));
  ASSERT_OK(volume->meta().Mknod(kCtx, {}, kRootIno, "f2", FileType::kFile, 0644, 0));
  volume.reset();
  auto plan = Plan({});
  ASSERT_OK(plan);
  EXPECT_THAT(FilesOf(*plan), ElementsAre(1, 10, 2, 30));
  EXPECT_TRUE(plan->plan.blocks.empty()) << "empty files need nothing";
}

TEST_F(WarmupPlanTest, WrongOptionsAreNamed) {
  packed_.AddPacked("train", 2);
  EXPECT_CODE(Plan({.strategy = WarmupStrategy::kRandom, .ranks = 2, .rank = 2}), Code::kInvalid);
  EXPECT_CODE(Plan({.rank = 0, .partition = 0}), Code::kInvalid);
  EXPECT_CODE(Plan({.partition = 2, .partitions = 2}), Code::kInvalid);
  EXPECT_CODE(Plan({.paths = {"a", "b"}, .list = "x"}), Code::kInvalid);
  EXPECT_CODE(ParseWarmupStrategy("cyclic"), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::volume::data
