// The life of a set over three runtimes: import, warm-up as Paddle's sampler reads, peers, clear,
// removal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/crypto.h"
#include "base/testing/matchers.h"
#include "integration/runtime/runtime_set.h"

namespace paddleop::testing {
namespace {

using runtime::JobKind;
using runtime::JobRequest;
using runtime::JobState;
using ::testing::HasSubstr;

constexpr std::size_t kFiles = 768;
constexpr std::size_t kSize = 64 << 10;
constexpr std::uint32_t kRanks = 3;

JobRequest SyncFrom(const std::string& directory) {
  JobRequest request{.kind = JobKind::kSync, .name = RandomUuid()};
  request.sources = {{.uri = "file://" + directory + "/"}};
  return request;
}

// What each rank reads in `epoch`, from Paddle itself.
Result<std::vector<std::vector<std::size_t>>> PaddleOrders(std::size_t batch, bool shuffle,
                                                           int epoch) {
  ASSIGN_OR_RETURN(const std::string paddle, Peer::Path("paddle"));
  ASSIGN_OR_RETURN(
      const auto run,
      RunProcess(
          {paddle + "/bin/python", SourceDir() + "/tests/integration/sampler/real_orders.py"}, {},
          std::chrono::seconds(240),
          fmt::format("{} {} {} {} 0 {}\n", kFiles, kRanks, batch, shuffle ? 1 : 0, epoch)));
  if (run.exit_code != 0) return Fail(Code::kInternal, "real_orders.py: {}", run.err);
  std::vector<std::vector<std::size_t>> orders;
  std::istringstream lines(run.out);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    auto& order = orders.emplace_back();
    for (std::size_t i = 0; words >> i;) order.push_back(i);
  }
  if (orders.size() != kRanks) return Fail(Code::kInternal, "{} orders", orders.size());
  return orders;
}

class RuntimeWalk : public ::testing::Test {
 protected:
  void Start(std::uint64_t cache_mib) {
    auto set = RuntimeSet::Start({.partitions = kRanks, .cache_mib = cache_mib});
    ASSERT_OK(set);
    set_ = *std::move(set);
    auto files = MakeFiles(set_->Path("source"), kFiles, kSize);
    ASSERT_OK(files);
    files_ = *std::move(files);
  }
  void TearDown() override {
    if (HasFailure() && set_) {
      for (std::uint32_t i = 0; i < kRanks; ++i) {
        const std::string log = set_->Log(i);
        fprintf(stderr, "--- log of runtime %u\n%s", i,
                log.substr(log.size() > 4000 ? log.size() - 4000 : 0).c_str());
      }
    }
  }
  // Reads one epoch on all nodes, checks every byte, and returns who served it.
  struct Served {
    std::uint64_t local = 0;
    std::uint64_t peer = 0;
    std::uint64_t store = 0;
  };
  Served ReadEpoch(const std::vector<std::vector<std::size_t>>& orders) {
    Served served;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      auto before = set_->client(rank).GetCacheInfo(set_->ctx());
      auto reader = set_->OpenReader(rank);
      EXPECT_OK(before);
      EXPECT_OK(reader);
      if (!reader) return served;
      for (const std::size_t index : orders[rank]) {
        auto text = reader->ReadFile(set_->ctx(), files_[index]);
        EXPECT_OK(text);
        if (text) {
          EXPECT_EQ(*text == ContentOf(files_[index], kSize), true) << files_[index];
        }
      }
      auto after = set_->client(rank).GetCacheInfo(set_->ctx());
      EXPECT_OK(after);
      const std::uint64_t asked =
          (after->reads.peer - before->reads.peer) + (after->reads.store - before->reads.store);
      served.peer += after->reads.peer - before->reads.peer;
      served.store += after->reads.store - before->reads.store;
      served.local += orders[rank].size() - std::min<std::uint64_t>(asked, orders[rank].size());
      EXPECT_EQ(reader->StoreBytes(), 0) << "a mount went past its runtime";
    }
    return served;
  }
  JobRequest RandomWarmup(std::int64_t epoch) const {
    JobRequest request{.kind = JobKind::kWarmup, .name = RandomUuid()};
    request.warmup.strategy_name = "random";
    request.warmup.batch_size = 8;
    request.warmup.ranks = kRanks;
    request.warmup.epoch = epoch;
    return request;
  }
  void RunOk(const JobRequest& request) {
    auto result = set_->RunJob(request);
    ASSERT_OK(result);
    EXPECT_EQ(result->state, JobState::kSucceeded) << result->message;
  }

  std::unique_ptr<RuntimeSet> set_;
  std::vector<std::string> files_;
};

TEST_F(RuntimeWalk, ImportWarmUpReadClearRemove) {
  ASSERT_NO_FATAL_FAILURE(Start(512));
  const JobRequest sync = SyncFrom(set_->Path("source"));
  auto imported = set_->RunJob(sync);
  ASSERT_OK(imported);
  ASSERT_EQ(imported->state, JobState::kSucceeded) << imported->message;
  EXPECT_EQ(imported->progress.files.done, static_cast<std::int64_t>(kFiles));
  EXPECT_EQ(imported->parts.size(), kRanks);
  // Within 10 seconds of the end the sizes are right, and all that was imported is cached.
  EXPECT_TRUE(WaitFor(
      [&] {
        auto total = set_->Total();
        return total && total->total_files == kFiles && total->total_size == kFiles * kSize &&
               total->cached_size >= kFiles * kSize;
      },
      std::chrono::seconds(10)));
  EXPECT_EQ(set_->StoreBytesRead().value_or(-1), 0);

  // Again: nothing is copied. The same name again: nothing happens at all.
  auto again = set_->RunJob(SyncFrom(set_->Path("source")));
  ASSERT_OK(again);
  EXPECT_EQ(again->progress.files.skipped, static_cast<std::int64_t>(kFiles)) << again->message;
  auto same = set_->RunJob(sync);
  ASSERT_OK(same);
  EXPECT_EQ(same->end_time, imported->end_time);

  RunOk(RandomWarmup(3));
  EXPECT_EQ(set_->StoreBytesRead().value_or(-1), 0) << "the caches had it all";
  auto orders = PaddleOrders(8, true, 3);
  ASSERT_OK(orders);
  const Served warmed = ReadEpoch(*orders);
  EXPECT_EQ(warmed.peer + warmed.store, 0U) << "the warmed epoch is local";
  auto next = PaddleOrders(8, true, 4);
  ASSERT_OK(next);
  const Served later = ReadEpoch(*next);
  EXPECT_EQ(later.store, 0U);

  RunOk({.kind = JobKind::kClear, .name = RandomUuid()});
  EXPECT_EQ(set_->Total()->cached_size, 0U);
  // From nothing: each block leaves the store once, whoever reads it.
  const Served cold = ReadEpoch(*next);
  EXPECT_GT(cold.store, 0U);
  const double fetched = set_->StoreBytesRead().value_or(-1);
  EXPECT_LE(fetched, static_cast<double>(kFiles * kSize) / (4 << 20) + 3 * kRanks);

  JobRequest rmr{.kind = JobKind::kRmr, .name = RandomUuid()};
  constexpr std::size_t kClasses = 8;  // blocks are larger than one class
  for (std::size_t i = 0; i < kClasses; ++i) {
    rmr.paths.paths.push_back(fmt::format("class-{:03}", i));
  }
  const std::uint64_t cached = set_->Total()->cached_size;
  RunOk(rmr);
  EXPECT_LT(set_->Total()->cached_size, cached) << "what is removed leaves the caches";
  EXPECT_TRUE(WaitFor(
      [&] {
        auto total = set_->Total();
        return total && total->total_files == kFiles - 50 * kClasses;
      },
      std::chrono::seconds(10)));
  rmr.name = RandomUuid();
  auto missing = set_->RunJob(rmr);
  ASSERT_OK(missing);
  EXPECT_EQ(missing->state, JobState::kFailed);
  EXPECT_EQ(missing->failed_files.at(0).path, "class-000");
}

// Each node's cache holds a third of the set, and 1 MiB for checksums and page maps.
TEST_F(RuntimeWalk, C3_AThirdOfTheSetOnEachNodeServesAnEpochOfPaddlesSampler) {
  ASSERT_NO_FATAL_FAILURE(Start(kFiles * kSize / kRanks / (1 << 20) + 1));
  RunOk(SyncFrom(set_->Path("source")));
  RunOk({.kind = JobKind::kClear, .name = RandomUuid()});
  RunOk(RandomWarmup(3));
  const double fetched = set_->StoreBytesRead().value_or(-1);
  EXPECT_LE(fetched, static_cast<double>(kFiles * kSize) / (4 << 20) + 3 * kRanks)
      << "every block leaves the store at most once";
  auto orders = PaddleOrders(8, true, 3);
  ASSERT_OK(orders);
  const Served warmed = ReadEpoch(*orders);
  EXPECT_EQ(warmed.peer + warmed.store, 0U) << "the warmed epoch is local";
  EXPECT_EQ(warmed.local, kFiles);
  auto next = PaddleOrders(8, true, 4);
  ASSERT_OK(next);
  const Served later = ReadEpoch(*next);
  EXPECT_EQ(later.store, 0U) << "later epochs hit peers";
  EXPECT_GT(later.peer, 0U);
  EXPECT_EQ(set_->StoreBytesRead().value_or(-1), fetched);
}

TEST_F(RuntimeWalk, AnotherEpochTakesThePlaceOfTheFirst) {
  ASSERT_NO_FATAL_FAILURE(Start(kFiles * kSize / kRanks / (1 << 20) + 1));
  RunOk(SyncFrom(set_->Path("source")));
  RunOk({.kind = JobKind::kClear, .name = RandomUuid()});
  RunOk(RandomWarmup(3));
  RunOk(RandomWarmup(4));
  auto next = PaddleOrders(8, true, 4);
  ASSERT_OK(next);
  const Served warmed_again = ReadEpoch(*next);
  EXPECT_EQ(warmed_again.peer + warmed_again.store, 0U);
}

TEST_F(RuntimeWalk, SourcesWithKeysAndBadInput) {
  ASSERT_NO_FATAL_FAILURE(Start(512));
  JobRequest sync{.kind = JobKind::kSync, .name = RandomUuid()};
  const std::string endpoint = set_->minio().Get("endpoint");
  const std::string place = "minio://" + endpoint.substr(endpoint.find("://") + 3) + "/source/";
  sync.sources = {{.uri = place,
                   .path = "from/minio",
                   .credentials = {.access_key = set_->minio().Get("access_key"),
                                   .secret_key = Secret(set_->minio().Get("secret_key"))}},
                  {.uri = "file://" + set_->Path("source") + "/", .path = "from/disk"}};
  RunOk(sync);
  EXPECT_EQ(
      set_->client(0).GetRequest(set_->ctx(), sync.kind, sync.name)->sources[0].credentials.empty(),
      true);

  sync.name = RandomUuid();
  sync.sources[0].credentials.secret_key = Secret("not-the-secret-of-it");
  auto wrong = set_->RunJob(sync);
  ASSERT_OK(wrong);
  EXPECT_EQ(wrong->state, JobState::kFailed);
  EXPECT_THAT(wrong->message, HasSubstr("partition 0"));
  for (std::uint32_t i = 0; i < kRanks; ++i) {
    EXPECT_THAT(set_->Log(i), ::testing::Not(HasSubstr("not-the-secret-of-it")));
    EXPECT_THAT(set_->Log(i), ::testing::Not(HasSubstr(set_->minio().Get("secret_key"))));
  }

  for (const std::string& forbidden :
       {std::string("/etc"), set_->Path("auth-0"), set_->Path("source") + "/../auth-0"}) {
    auto outside = set_->RunJob(SyncFrom(forbidden));
    ASSERT_OK(outside);
    EXPECT_EQ(outside->state, JobState::kFailed);
    EXPECT_THAT(outside->message, HasSubstr("--source-dir"));
  }
  JobRequest clear{.kind = JobKind::kClear, .name = RandomUuid()};
  clear.paths.paths = {"/etc"};
  auto etc = set_->RunJob(clear);
  ASSERT_OK(etc);
  EXPECT_EQ(etc->state, JobState::kFailed);
  EXPECT_THAT(etc->message, HasSubstr("/etc"));
  JobRequest list{.kind = JobKind::kWarmup, .name = RandomUuid()};
  list.warmup.file = "no_list.txt";
  auto warmup = set_->RunJob(list);
  ASSERT_OK(warmup);
  EXPECT_EQ(warmup->state, JobState::kFailed);
  EXPECT_THAT(warmup->message, HasSubstr("no_list.txt"));
}

}  // namespace
}  // namespace paddleop::testing
