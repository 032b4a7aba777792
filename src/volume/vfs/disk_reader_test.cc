#include "volume/vfs/internal/disk_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <random>
#include <system_error>

#include "base/testing/refused_threads.h"
#include "volume/cache/metrics.h"
#include "volume/cache/testing/cache_fixture.h"
#include "volume/cache/testing/held_access.h"
#include "volume/vfs/internal/kernel_reads.h"
#include "volume/vfs/metrics.h"

namespace paddleop::volume {
namespace {

using namespace std::chrono_literals;
using ::paddleop::testing::RefusedThreads;
using testing::DiskCacheTest;
using testing::HeldAccess;
using testing::kUuid;
using Steady = std::chrono::steady_clock;

constexpr char kNothing[] = "nothing";
// What one directory has of the memory.
constexpr std::size_t kShare = ReadBuffers::kPieces / 4 * 3;

class DiskReaderThreads : public DiskCacheTest {
 protected:
  void SetUp() override {
    DiskCacheTest::SetUp();
    options_.direct_reads = true;
  }
  void OpenReader(std::uint64_t blocks, DiskReaderOptions options = {}) {
    cache_ = Open();
    for (std::uint64_t i = 1; i <= blocks; ++i) ASSERT_TRUE(Put(*cache_, Block(i)));
    options.kernel_reads = kernel_reads_;
    reader_.emplace(*cache_, metrics_, options);
  }
  std::future<std::string> Begin(const BlockId& block, std::uint32_t offset, std::uint32_t size) {
    auto answer = std::make_shared<std::promise<std::string>>();
    reader_->Read(block, offset, size, [answer](auto bytes) {
      answer->set_value(bytes ? std::string(AsText(*bytes)) : kNothing);
    });
    return answer->get_future();
  }
  std::string ReadPart(const BlockId& block, std::uint32_t offset, std::uint32_t size) {
    return Begin(block, offset, size).get();
  }
  bool IsRight(const BlockId& block) { return ReadPart(block, 0, block.length) == Content(block); }
  double Value(const char* name, const MetricsRegistry::Labels& labels = {}) {
    return metrics_.AddCounter(name, "", labels).Value();
  }

  // Of two directories, with blocks in each.
  void OpenTwo(DiskReaderOptions options) {
    options_.directories = {{.path = dir_->File("a"), .free_space_ratio = 0},
                            {.path = dir_->File("b"), .free_space_ratio = 0}};
    OpenReader(20, options);
    for (std::uint64_t i = 1; i <= 20; ++i)
      (std::filesystem::exists(PathIn("a", Block(i))) ? in_a_ : in_b_).push_back(Block(i));
    ASSERT_GE(in_a_.size(), 3u);
    ASSERT_GE(in_b_.size(), 3u);
  }
  std::string PathIn(const char* dir, const BlockId& block) const {
    return dir_->File(dir) + "/" + kUuid + "/" + CacheFilePath(BlockKey(options_.layout, block));
  }
  // Opens the block's file so that who reads of it waits; it must not be open yet.
  void HoldReads(HeldAccess& held, const std::string& path, const BlockId& block) {
    held.Watch(path, FAN_ACCESS_PERM);
    auto first = Begin(block, 0, 1);
    while (first.wait_for(0s) != std::future_status::ready) {
      if (held.WaitForOne(20ms)) held.LetOneGo();
    }
    ASSERT_NE(first.get(), kNothing);
  }
  // False if it is not so in time.
  template <class Condition>
  static bool Soon(Condition condition) {
    const auto until = Steady::now() + 20s;
    while (!condition()) {
      if (Steady::now() > until) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }

  bool kernel_reads_ = false;
  std::vector<BlockId> in_a_, in_b_;
  std::unique_ptr<DiskCache> cache_;
  std::optional<DiskReader> reader_;
};

// With reads by the kernel, and without, as where a container forbids them.
class DiskReaderTest : public DiskReaderThreads, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    DiskReaderThreads::SetUp();
    kernel_reads_ = GetParam();
  }
};

TEST_P(DiskReaderTest, ReadsAnyPart) {
  OpenReader(3);
  const MetricsRegistry::Labels disk = {{"tier", "disk"}};
  std::mt19937 random(7);
  std::uint64_t bytes = 0;
  for (int i = 0; i < 300; ++i) {
    const BlockId block = Block(random() % 3 + 1);
    const auto offset = static_cast<std::uint32_t>(random() % kBlock);
    const auto size = static_cast<std::uint32_t>(random() % (kBlock - offset) + 1);
    ASSERT_TRUE(ReadPart(block, offset, size) == Content(block).substr(offset, size))
        << offset << " " << size;
    bytes += size;
  }
  EXPECT_EQ(Value(cache_metrics::kHits, disk), 300);
  EXPECT_EQ(Value(cache_metrics::kHitBytes, disk), static_cast<double>(bytes));
  EXPECT_EQ(cache_->Traffic().hits, 300u);
}

TEST_P(DiskReaderTest, SaysWhatIsNotThere) {
  OpenReader(1);
  EXPECT_EQ(ReadPart(Block(9), 0, 10), kNothing);
  EXPECT_EQ(Value(cache_metrics::kMisses), 1);
  EXPECT_EQ(Value(kReadsGivenUp), 0);
}

TEST_P(DiskReaderTest, ReadsRanges) {
  OpenReader(0);
  const BlockId block = Block(4);
  ASSERT_OK(cache_->StoreRange(ctx_, block, 8192, AsBytes(Content(block).substr(8192, 16384)), ""));
  EXPECT_EQ(ReadPart(block, 9'000, 5'000), Content(block).substr(9'000, 5'000));
  EXPECT_EQ(ReadPart(block, 0, 10), kNothing);
}

TEST_P(DiskReaderTest, DamageIsNothingAndTheFileIsGone) {
  OpenReader(1);
  ASSERT_EQ(ReadPart(Block(1), 0, 10), Content(Block(1)).substr(0, 10));
  auto file = OpenFile(PathOf(Block(1)), O_RDWR);
  ASSERT_OK(file);
  ASSERT_EQ(::pwrite(file->get(), "damage", 6, 100'000), 6);
  ASSERT_EQ(::fsync(file->get()), 0);
  EXPECT_EQ(ReadPart(Block(1), 99'000, 5'000), kNothing);
  EXPECT_EQ(Value(cache_metrics::kCorrupt), 1);
  EXPECT_FALSE(cache_->Contains(Block(1)));
}

TEST_P(DiskReaderTest, MoreReadsThanMemoryTakeTurns) {
  OpenReader(4);
  std::vector<std::pair<std::uint64_t, std::future<std::string>>> answers;
  for (std::uint64_t i = 0; i < 400; ++i)
    answers.emplace_back(i % 4 + 1, Begin(Block(i % 4 + 1), 0, kBlock));
  for (auto& [block, answer] : answers) EXPECT_TRUE(answer.get() == Content(Block(block)));
}

TEST_P(DiskReaderTest, AFileThatDoesNotOpenKeepsNobodyFromTheOthers) {
  OpenReader(2);
  ASSERT_EQ(ReadPart(Block(1), 0, 10), Content(Block(1)).substr(0, 10));
  HeldAccess held;
  held.Watch(PathOf(Block(2)), FAN_OPEN_PERM);
  auto slow = Begin(Block(2), 0, 10);
  ASSERT_TRUE(held.WaitForOne());
  for (std::uint32_t i = 0; i < 20; ++i)
    EXPECT_EQ(ReadPart(Block(1), i * 8192, 8192), Content(Block(1)).substr(i * 8192, 8192));
  EXPECT_EQ(slow.wait_for(0s), std::future_status::timeout);
  held.LetOneGo();
  EXPECT_EQ(slow.get(), Content(Block(2)).substr(0, 10));
  EXPECT_EQ(Value(kReadsGivenUp), 0);
}

TEST_P(DiskReaderTest, ADiskThatDoesNotOpenFilesIsNotWaitedForForEver) {
  OpenReader(10, {.threads = 1, .patience = 2s});
  ASSERT_EQ(ReadPart(Block(1), 0, 10), Content(Block(1)).substr(0, 10));
  HeldAccess held;
  for (std::uint64_t i = 2; i <= 9; ++i) held.Watch(PathOf(Block(i)), FAN_OPEN_PERM);
  int given_up = 0;
  while (held.Waiting() < 3) {
    ASSERT_LT(given_up, 20);
    EXPECT_EQ(ReadPart(Block(10), 0, 10), Content(Block(10)).substr(0, 10)) << "others read on";
    EXPECT_EQ(ReadPart(Block(2), 0, 10), kNothing);
    EXPECT_EQ(Value(kReadsGivenUp), ++given_up);
  }
  EXPECT_GE(given_up, 3);
  // No thread is left: nobody waits any more.
  ASSERT_TRUE(Soon([&] { return !reader_->Run([] {}); }));
  auto next = Begin(Block(9), 0, 10);
  EXPECT_EQ(next.wait_for(0s), std::future_status::ready);
  EXPECT_EQ(next.get(), kNothing);
  EXPECT_EQ(Value(kReadsGivenUp), given_up);
  EXPECT_EQ(Value(cache_metrics::kMisses), given_up + 1) << "the store is asked for all of them";
  EXPECT_EQ(Value(cache_metrics::kMissBytes), 10 * (given_up + 1));
  EXPECT_EQ(cache_->Traffic().misses, static_cast<std::uint64_t>(given_up) + 1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(held.WaitForOne());
    held.LetOneGo();
  }
  for (std::uint64_t i = 2; i <= 9; ++i) held.Forget(PathOf(Block(i)), FAN_OPEN_PERM);
  // It answers again.
  const auto until = Steady::now() + 20s;
  while (ReadPart(Block(9), 0, 10) == kNothing) ASSERT_LT(Steady::now(), until);
  EXPECT_TRUE(reader_->Run([] {}));
}

TEST_F(DiskReaderThreads, MemoryThatADiskDoesNotGiveBackIsNotWaitedFor) {
  OpenReader(2, {.threads = kShare});
  ASSERT_TRUE(IsRight(Block(2)));
  std::vector<std::future<std::string>> answers;
  {
    HeldAccess held;
    HoldReads(held, PathOf(Block(1)), Block(1));
    for (std::size_t i = 0; i < ReadBuffers::kPieces; ++i) answers.push_back(Begin(Block(1), 0, 1));
    ASSERT_TRUE(Soon([&] { return held.Waiting() == kShare; }));
    for (auto& answer : answers) EXPECT_EQ(answer.get(), kNothing);
    EXPECT_GE(Value(kReadsGivenUp), 1);
    EXPECT_EQ(Value(cache_metrics::kMisses), ReadBuffers::kPieces);
    // Nothing that is the directory's comes back.
    auto next = Begin(Block(2), 0, 10);
    EXPECT_EQ(next.wait_for(0s), std::future_status::ready);
    EXPECT_EQ(next.get(), kNothing);
    EXPECT_EQ(Value(cache_metrics::kMisses), ReadBuffers::kPieces + 1);
  }
  EXPECT_TRUE(Soon([&] { return ReadPart(Block(2), 0, 10) != kNothing; }));
}

TEST_F(DiskReaderThreads, ReadsThatNoThreadHasBegunGiveTheirMemoryBack) {
  OpenReader(2, {.threads = 1, .patience = 3s});
  ASSERT_TRUE(IsRight(Block(2)));
  std::vector<std::future<std::string>> answers;
  HeldAccess held;
  HoldReads(held, PathOf(Block(1)), Block(1));
  for (std::size_t i = 0; i < kShare; ++i) answers.push_back(Begin(Block(1), 0, 1));
  for (auto& answer : answers) EXPECT_EQ(answer.get(), kNothing);
  EXPECT_TRUE(Soon([&] { return IsRight(Block(2)); }));
}

TEST_F(DiskReaderThreads, ADirectoryThatHangsLeavesTheOthersTheirShare) {
  OpenTwo({.patience = 3s});
  HeldAccess held;
  for (const BlockId& block : in_a_)
    held.Watch(PathIn("a", block), FAN_OPEN_PERM | FAN_ACCESS_PERM);
  std::vector<std::future<std::string>> answers;
  for (int i = 0; i < 10; ++i) answers.push_back(Begin(in_a_[0], 0, 1));
  for (auto& answer : answers) EXPECT_EQ(answer.get(), kNothing);
  const auto runs = std::make_shared<std::atomic<bool>>(false);
  ASSERT_TRUE(Soon([&] { return reader_->Run([runs] { *runs = true; }) && *runs; }));
  for (int round = 0; round < 2; ++round) {
    for (const BlockId& block : in_b_) EXPECT_TRUE(IsRight(block));
  }
}

TEST_P(DiskReaderTest, ADirectoryThatOpensNothingKeepsNobodyFromTheFilesOfAnother) {
  OpenTwo({.threads = 2, .patience = 20s});
  ASSERT_TRUE(IsRight(in_b_[0]));
  std::vector<std::future<std::string>> answers;
  {
    HeldAccess held;
    for (const BlockId& block : in_a_) held.Watch(PathIn("a", block), FAN_OPEN_PERM);
    for (const BlockId& block : in_a_) answers.push_back(Begin(block, 0, 10));
    // Until long after it is known that something is late.
    for (const auto until = Steady::now() + 1s; Steady::now() < until;)
      ASSERT_TRUE(IsRight(in_b_[0]));
    EXPECT_EQ(answers.back().wait_for(0s), std::future_status::timeout);
    EXPECT_EQ(Value(kReadsGivenUp), 0);
  }
  for (auto& answer : answers) answer.wait();
}

TEST_F(DiskReaderThreads, WhoWaitsForTheShareOfOneDirectoryKeepsNobodyFromAnother) {
  OpenTwo({.threads = kShare, .patience = 3s});
  ASSERT_TRUE(IsRight(in_b_[0]));
  std::vector<std::future<std::string>> answers;
  HeldAccess held;
  HoldReads(held, PathIn("a", in_a_[0]), in_a_[0]);
  for (std::size_t i = 0; i < kShare; ++i) answers.push_back(Begin(in_a_[0], 0, 1));
  // Those that come later wait for memory when these are given up.
  while (answers.front().wait_for(50ms) != std::future_status::ready)
    answers.push_back(Begin(in_a_[0], 0, 1));
  EXPECT_TRUE(IsRight(in_b_[0]));
  for (auto& answer : answers) EXPECT_EQ(answer.get(), kNothing);
}

TEST_F(DiskReaderThreads, WhatOnlyLateReadsCouldGiveBackIsNotWaitedFor) {
  OpenTwo({.threads = ReadBuffers::kPieces, .patience = 4s});
  const BlockId a = in_a_[0], b = in_b_[0], large = in_b_[1];
  ASSERT_TRUE(IsRight(large));
  HeldAccess held_a, held_b;
  HoldReads(held_a, PathIn("a", a), a);
  HoldReads(held_b, PathIn("b", b), b);
  // Every other piece of the memory is of a read that hangs.
  std::vector<std::future<std::string>> hanging, others;
  for (std::size_t i = 0; i < ReadBuffers::kPieces / 2; ++i) {
    hanging.push_back(Begin(a, 0, 1));
    others.push_back(Begin(b, 0, 1));
  }
  ASSERT_TRUE(Soon([&] { return held_a.Waiting() == hanging.size(); }));
  for (auto& other : others) {
    while (other.wait_for(0s) != std::future_status::ready) {
      if (held_b.WaitForOne(20ms)) held_b.LetOneGo();
    }
  }
  for (auto& read : hanging) EXPECT_EQ(read.get(), kNothing);
  auto last = Begin(b, 0, 1);
  ASSERT_TRUE(held_b.WaitForOne());
  const double given_up = Value(kReadsGivenUp);
  auto waiting = Begin(large, 0, kBlock);
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout) << "there may be room beside it";
  held_b.LetOneGo();
  EXPECT_EQ(last.get(), Content(b).substr(0, 1));
  EXPECT_EQ(waiting.get(), kNothing);
  EXPECT_EQ(Value(kReadsGivenUp), given_up) << "it waited for nothing";
}

TEST_P(DiskReaderTest, WithTooFewThreadsTheAnswerIsNothingUntilThereAreMore) {
  OpenReader(1);
  {
    const RefusedThreads refused(3);
    for (int i = 1; i <= 3; ++i) {
      EXPECT_EQ(ReadPart(Block(1), 0, 10), kNothing);
      EXPECT_EQ(Value(cache_metrics::kMisses), i);
    }
  }
  EXPECT_TRUE(IsRight(Block(1)));
}

TEST_F(DiskReaderThreads, TakersThatCannotBeStartedAreDoneWithout) {
  cache_ = Open();
  ASSERT_TRUE(Put(*cache_, Block(1)));
  {
    const RefusedThreads refused(1, 1);
    reader_.emplace(*cache_, metrics_, DiskReaderOptions{.takers = 3});
  }
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(IsRight(Block(1)));
}

TEST_F(DiskReaderThreads, WhoCannotBeMadeForLackOfThreadsLeavesNone) {
  cache_ = Open();
  const RefusedThreads refused(2);
  EXPECT_THROW(reader_.emplace(*cache_, metrics_, DiskReaderOptions{.takers = 2}),
               std::system_error);
}

// Everybody's turn comes, also that of who needs much.
TEST_P(DiskReaderTest, SmallReadsDoNotGoPastLargeOnes) {
  OpenReader(2, {.patience = 20s});
  std::atomic<bool> done = false;
  std::vector<std::jthread> readers;
  for (int t = 0; t < 70; ++t) {
    readers.emplace_back([&] {
      while (!done) ReadPart(Block(1), 0, 100'000);
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(IsRight(Block(2)));
  done = true;
}

TEST_P(DiskReaderTest, WhoWaitsAtTheEndGetsNothing) {
  OpenReader(1);
  std::future<std::string> answer;
  std::future<void> stopped;
  {
    HeldAccess held;
    held.Watch(PathOf(Block(1)), FAN_OPEN_PERM);
    answer = Begin(Block(1), 0, 10);
    ASSERT_TRUE(held.WaitForOne());
    stopped = std::async(std::launch::async, [&] { reader_->Stop(); });
    ASSERT_EQ(answer.wait_for(20s), std::future_status::ready) << "it waits for the disk";
    EXPECT_EQ(answer.get(), kNothing);
  }
  stopped.get();
  EXPECT_EQ(ReadPart(Block(1), 0, 10), kNothing);
}

TEST_P(DiskReaderTest, EveryReadIsAnsweredOnceWhenItEnds) {
  OpenReader(4);
  std::atomic<int> asked = 0, answered = 0;
  std::vector<std::jthread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 500; ++i) {
        ++asked;
        reader_->Read(Block(static_cast<std::uint64_t>(t) + 1), i * 500, 10'000,
                      [&](auto) { ++answered; });
      }
    });
  }
  while (answered < 300) std::this_thread::yield();
  reader_->Stop();
  readers.clear();
  EXPECT_EQ(answered, asked);
}

INSTANTIATE_TEST_SUITE_P(Ways, DiskReaderTest, ::testing::Bool(), [](const auto& by_kernel) {
  return by_kernel.param ? "ByTheKernel" : "ByThreads";
});

TEST(KernelReads, EndsForEverybodyWhoWaits) {
  auto reads = KernelReads::Open(4);
  ASSERT_TRUE(reads);
  std::vector<std::future<std::size_t>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(std::async(std::launch::async, [&] {
      std::array<KernelReads::Ended, 4> ended;
      return reads->Wait(ended);
    }));
  }
  reads->End();
  for (auto& waiter : waiting) EXPECT_EQ(waiter.get(), 0u);
}

}  // namespace
}  // namespace paddleop::volume
