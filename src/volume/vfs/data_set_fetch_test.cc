// What a data set asks of the object store, and how long its readers wait for it.
#include <gtest/gtest.h>

#include <future>
#include <random>
#include <thread>

#include "volume/vfs/testing/data_set_fixture.h"

namespace paddleop::volume {
namespace {

using namespace std::chrono_literals;
using object::testing::Fault;
using object::testing::Op;
using SteadyClock = std::chrono::steady_clock;

class DataSetFetchTest : public DataSetTest {
 protected:
  struct Answer {
    bool good = false;
    SteadyClock::duration after{};  // since it was asked
  };

  std::future<Answer> Start(std::string_view name) {
    auto answer = std::make_shared<std::promise<Answer>>();
    const auto begin = SteadyClock::now();
    set_->Read(Find(name), 0, 10, [answer, begin](const Result<std::span<const std::byte>>& bytes) {
      answer->set_value({.good = bytes.has_value(), .after = SteadyClock::now() - begin});
    });
    return answer->get_future();
  }

  // Reads one file after the other in this order; the bytes that the store gave for it.
  std::uint64_t Epoch(const std::vector<std::string>& names, std::uint32_t size) {
    const std::uint64_t before = metered_->bytes;
    for (const std::string& name : names)
      EXPECT_EQ(*Read(Find(name), 0, size), Content(name, size));
    return metered_->bytes - before;
  }

  static std::vector<std::string> Names(int packs, int files_per_pack) {
    std::vector<std::string> names;
    for (int p = 0; p < packs; ++p) {
      for (int i = 0; i < files_per_pack; ++i) names.push_back(fmt::format("p{:03}-{:03}", p, i));
    }
    return names;
  }
  static std::vector<std::string> Shuffled(std::vector<std::string> names, unsigned seed) {
    std::shuffle(names.begin(), names.end(), std::mt19937(seed));
    return names;
  }
};

TEST_F(DataSetFetchTest, ReadersOfAStoreThatIsAwayWaitNoLongerThanTheyWereTold) {
  Import(24, 1, 3'000);
  // One after the other they would wait for many seconds.
  Open({.fetch_threads = 1, .io_timeout = 500ms, .prefetch = false});
  objects_.InjectRandomly(Op::kGet, {.kind = Fault::Kind::kUnavailable}, 1.0);
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 24; ++i) answers.push_back(Start(fmt::format("p{:03}-000", i)));
  for (auto& each : answers) {
    const Answer answer = each.get();
    EXPECT_FALSE(answer.good);
    EXPECT_LT(answer.after, 2s);
  }
}

TEST_F(DataSetFetchTest, EachReaderWaitsItsOwnTime) {
  Import(2, 2, 3'000);
  Open({.fetch_threads = 1, .io_timeout = 1000ms, .prefetch = false});
  metered_->silent = 1000;
  auto first = Start("p000-000"), other = Start("p001-000");
  std::this_thread::sleep_for(600ms);
  auto late = Start("p000-001");
  for (auto* each : {&first, &other, &late}) {
    const Answer answer = each->get();
    EXPECT_FALSE(answer.good);
    EXPECT_GE(answer.after, 900ms) << "nobody is sent away for another's time";
    EXPECT_LT(answer.after, 1500ms) << "nobody waits for another's";
  }
}

TEST_F(DataSetFetchTest, WhoJoinsLateGetsTheBlockWhenTheStoreIsBack) {
  Import(1, 2, 3'000);
  Open({.io_timeout = 2000ms, .prefetch = false});
  metered_->silent = 1;
  auto first = Start("p000-000");
  std::this_thread::sleep_for(1200ms);
  auto late = Start("p000-001");
  EXPECT_FALSE(first.get().good);
  EXPECT_TRUE(late.get().good);
}

TEST_F(DataSetFetchTest, AReaderWaitsForWhatAPrefetchCouldNotGet) {
  Import(2, 1, 3'000);
  Open({.io_timeout = 20'000ms});
  // The pack that follows is fetched ahead, in vain.
  objects_.Inject(Op::kGet, {.kind = Fault::Kind::kUnavailable}, 1, 1);
  EXPECT_TRUE(Start("p000-000").get().good);
  EXPECT_TRUE(Start("p001-000").get().good);
}

TEST_F(DataSetFetchTest, ASequentialReaderFetchesEachBlockOnceWhereNothingIsKept) {
  constexpr std::uint64_t kBlocks = 60;
  const std::string big = Content("big", kBlocks * kBlock);
  const Ino ino = Write("big", big);
  Open({.recent_bytes = 2 * kBlock, .max_readahead = 8 * kBlock});
  const std::uint64_t before = metered_->bytes;
  for (std::uint64_t at = 0; at < big.size(); at += kBlock / 4)
    ASSERT_EQ(*Read(ino, at, kBlock / 4), big.substr(at, kBlock / 4));
  set_->Stop();
  EXPECT_LE(metered_->bytes - before, (kBlocks + 4) * kBlock);
  EXPECT_GT(set_->Status().prefetch_useful, kBlocks / 2) << "and still reads ahead";
}

TEST_F(DataSetFetchTest, MoreReadersThanTheMemoryServesStopReadingAhead) {
  constexpr std::uint64_t kBlocks = 40, kReaders = 5;
  std::vector<Ino> files;
  std::vector<std::string> contents;
  for (std::uint64_t i = 0; i < kReaders; ++i) {
    contents.push_back(Content(fmt::format("big{}", i), kBlocks * kBlock));
    files.push_back(Write(fmt::format("big{}", i), contents.back()));
  }
  Open({.recent_bytes = 2 * kBlock, .max_readahead = 8 * kBlock});
  const std::uint64_t before = metered_->bytes;
  for (std::uint64_t at = 0; at < kBlocks * kBlock; at += kBlock / 4) {
    for (std::uint64_t i = 0; i < kReaders; ++i)
      ASSERT_EQ(*Read(files[i], at, kBlock / 4), contents[i].substr(at, kBlock / 4));
  }
  set_->Stop();
  EXPECT_LE(metered_->bytes - before, kReaders * kBlocks * kBlock * 2);
}

TEST_F(DataSetFetchTest, SmallReadsCostWhatTheyReadWhereNothingIsKept) {
  Import(60, 20, 3'000);
  Open({.recent_bytes = 2 * kBlock});
  const auto names = Names(60, 20);
  EXPECT_LT(Epoch(Shuffled(names, 1), 3'000), names.size() * 3'000 * 2);
  // In the order of the packs, whole ones pay.
  const int calls = objects_.calls(Op::kGet);
  Epoch(names, 3'000);
  EXPECT_LT(Epoch(names, 3'000), 62 * 60'000u);
  EXPECT_LT(objects_.calls(Op::kGet) - calls, 2 * 60 + 40);
  // And no longer when the order is random again.
  EXPECT_LT(Epoch(Shuffled(names, 2), 3'000), names.size() * 3'000 * 2);
}

TEST_F(DataSetFetchTest, SmallReadsCostWhatTheyReadWhereTheCacheIsFullOfPins) {
  Import(60, 20, 3'000);
  OpenDisk(10 * kBlock);
  const std::vector<std::byte> filler(kBlock);
  for (std::uint64_t i = 0;; ++i) {
    ASSERT_LT(i, 20u);
    const auto kept =
        disk_->Store(kCtx, {.slice = 1'000'000 + i, .length = kBlock}, filler, "plan");
    if (!kept) break;
  }
  Open({.recent_bytes = 2 * kBlock});
  const auto names = Names(60, 20);
  EXPECT_LT(Epoch(Shuffled(names, 1), 3'000), names.size() * 3'000 * 2);
  // Once there is room, whole packs come and stay.
  ASSERT_OK(disk_->ClearAll(kCtx));
  const auto some = Names(5, 20);
  EXPECT_TRUE([&] {
    for (int i = 0; i < 600; ++i) {
      if (Epoch(Shuffled(some, 3), 3'000) == 0) return true;
      std::this_thread::sleep_for(20ms);
    }
    return false;
  }());
}

TEST_F(DataSetFetchTest, ACacheThatKeepsBlocksGetsWholeOnes) {
  Import(60, 20, 3'000);
  OpenDisk(1000 * kBlock);
  Open({.recent_bytes = 2 * kBlock});
  const auto names = Names(60, 20);
  const int calls = objects_.calls(Op::kGet);
  EXPECT_EQ(Epoch(Shuffled(names, 1), 3'000), 60 * 60'000u);
  EXPECT_EQ(objects_.calls(Op::kGet) - calls, 60);
}

TEST_F(DataSetFetchTest, MemoryIsACacheIfItIsLargeEnough) {
  Import(60, 20, 3'000);
  Open({.recent_bytes = 61 * kBlock});
  const auto names = Names(60, 20);
  EXPECT_EQ(Epoch(Shuffled(names, 1), 3'000), 60 * 60'000u);
  EXPECT_EQ(Epoch(Shuffled(names, 2), 3'000), 0u);
  EXPECT_EQ(objects_.calls(Op::kGet), 60);
}

}  // namespace
}  // namespace paddleop::volume
