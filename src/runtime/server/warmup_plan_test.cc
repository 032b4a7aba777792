#include "runtime/server/warmup_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/testing/matchers.h"
#include "volume/data/testing/packed_volume.h"
#include "volume/peer/rendezvous.h"

namespace paddleop::runtime {
namespace {

using volume::data::testing::PackedVolume;

const Context kCtx = Context::Background();
constexpr std::uint32_t kPartitions = 3;
constexpr int kFiles = 90;

class SetPlanTest : public ::testing::Test {
 protected:
  void SetUp() override { packed_.AddPacked("train", kFiles); }
  std::vector<SetPlan> PlanAll(const api::WarmupOptions& options, std::uint64_t capacity) {
    auto volume = packed_.Open();
    auto tree = volume->meta().LoadTree(kCtx, volume::kRootIno, true);
    EXPECT_OK(tree);
    std::vector<SetPlan> plans;
    for (std::uint32_t owner = 0; owner < kPartitions; ++owner) {
      auto plan = PlanSet(*tree, volume->setting().layout(), options, std::nullopt, kPartitions,
                          owner, capacity);
      EXPECT_OK(plan);
      plans.push_back(*std::move(plan));
    }
    return plans;
  }

  PackedVolume packed_;
};

TEST_F(SetPlanTest, EveryBlockHasOneOwnerAndEveryShareIsServed) {
  const auto plans = PlanAll({.strategy_name = "random", .batch_size = 4, .epoch = 7}, 1ULL << 40);
  std::map<volume::BlockId, int> owners;
  std::vector<std::uint64_t> share(kPartitions);
  std::uint64_t files = 0;
  for (std::uint32_t owner = 0; owner < kPartitions; ++owner) {
    EXPECT_FALSE(plans[owner].tight);
    EXPECT_EQ(plans[owner].set_bytes, plans[0].set_bytes);
    files += plans[owner].files;
    for (const SharedBlock& shared : plans[owner].blocks) {
      EXPECT_EQ(volume::OwnerOf(shared.block, kPartitions), owner);
      ++owners[shared.block];
      for (const auto& [partition, wish] : shared.wishes) share[partition] += wish.bytes();
    }
  }
  EXPECT_EQ(files, static_cast<std::uint64_t>(kFiles));
  for (const auto& [block, count] : owners) EXPECT_EQ(count, 1);
  for (const std::uint64_t bytes : share) EXPECT_GT(bytes, 0U);
}

TEST_F(SetPlanTest, WhereItIsTightNobodyGetsMoreThanItReads) {
  const auto plans = PlanAll({.strategy_name = "random", .batch_size = 4, .epoch = 7}, 1);
  std::vector<std::uint64_t> share(kPartitions);
  for (const SetPlan& plan : plans) {
    EXPECT_TRUE(plan.tight);
    for (const SharedBlock& shared : plan.blocks) {
      for (const auto& [partition, wish] : shared.wishes) share[partition] += wish.bytes();
    }
  }
  // A third of the files each, widened to pages.
  for (const std::uint64_t bytes : share) {
    EXPECT_LE(bytes, kFiles / kPartitions * (PackedVolume::kFile + 8192U));
  }
}

TEST(PlanName, TellsOrdersApartAndKnowsTheSameFiles) {
  const api::WarmupOptions first{.paths = {"a"}, .strategy_name = "random", .epoch = 1};
  api::WarmupOptions second = first;
  second.epoch = 2;
  second.threads = 9;
  EXPECT_EQ(PlanPrefix(first), PlanPrefix(second));
  EXPECT_NE(PlanName(first, 3), PlanName(second, 3));
  EXPECT_TRUE(PlanName(first, 3).starts_with(PlanPrefix(first)));
  second.epoch = 1;
  EXPECT_EQ(PlanName(first, 3), PlanName(second, 3));
  second.paths = {"b"};
  EXPECT_NE(PlanPrefix(first), PlanPrefix(second));
}

}  // namespace
}  // namespace paddleop::runtime
