// kill -9 of each runtime, of Redis and of MinIO in random order and at random moments, while a job
// of each kind runs: every job ends right or fails with a reason, never happens twice, and nothing
// is lost. (The managers die in tests/integration/sampleset/kill_cases.py.)
// PADDLEOP_KILL_ROUNDS sets the number of kills (20), PADDLEOP_SEED the seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/crypto.h"
#include "base/testing/matchers.h"
#include "integration/runtime/runtime_set.h"
#include "volume/data/fsck.h"

namespace paddleop::testing {
namespace {

using runtime::JobKind;
using runtime::JobRequest;
using runtime::JobResult;
using runtime::JobState;
using std::chrono::milliseconds;

constexpr std::size_t kFiles = 120;
constexpr std::size_t kSize = 40'000;

int Rounds() {
  const char* text = std::getenv("PADDLEOP_KILL_ROUNDS");
  return text != nullptr ? std::atoi(text) : 20;
}

unsigned Seed() {
  const char* text = std::getenv("PADDLEOP_SEED");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : std::random_device{}();
}

class RuntimeKill : public ::testing::Test {
 protected:
  void SetUp() override {
    const unsigned seed = Seed();
    fprintf(stderr, "PADDLEOP_SEED=%u\n", seed);
    random_.seed(seed);
    auto set = RuntimeSet::Start({.partitions = 3, .redis_durable = true, .flags = {}});
    ASSERT_OK(set);
    set_ = *std::move(set);
    auto files = MakeFiles(set_->Path("source"), kFiles, kSize);
    ASSERT_OK(files);
    files_ = *std::move(files);
  }
  void TearDown() override {
    if (!HasFailure() || !set_) return;
    for (std::uint32_t i = 0; i < 3; ++i) {
      const std::string log = set_->Log(i);
      fprintf(stderr, "--- log of runtime %u\n%s", i,
              log.substr(log.size() > 6000 ? log.size() - 6000 : 0).c_str());
    }
  }

  milliseconds Draw(int most) {
    return milliseconds(std::uniform_int_distribution<int>(0, most)(random_));
  }
  // In random order, but each as often as the others: three runtimes, Redis, MinIO.
  int NextVictim() {
    if (victims_.empty()) {
      victims_ = {0, 1, 2, 3, 4};
      std::ranges::shuffle(victims_, random_);
    }
    const int victim = victims_.back();
    victims_.pop_back();
    return victim;
  }
  // Kills one of the five and brings it back after a moment.
  void Disaster() {
    SleepBriefly(Draw(600));
    const int victim = NextVictim();
    if (victim < 3) {
      fprintf(stderr, "kill runtime %d\n", victim);
      set_->Kill(static_cast<std::uint32_t>(victim));
      SleepBriefly(Draw(200));
      ASSERT_OK(set_->Restart(static_cast<std::uint32_t>(victim)));
      return;
    }
    Peer& peer = victim == 3 ? set_->redis() : set_->minio();
    const std::string name = victim == 3 ? "redis" : "minio";
    fprintf(stderr, "kill %s\n", name.c_str());
    ASSERT_OK(peer.Command("kill " + name));
    SleepBriefly(Draw(200));
    ASSERT_OK(peer.Command("start " + name));
  }
  // Posts all the jobs, has a disaster, and sees each of them to its end.
  void Survive(const std::vector<JobRequest>& requests) {
    for (const JobRequest& request : requests) {
      ASSERT_OK(set_->client(0).Post(set_->ctx(), request));
    }
    ASSERT_NO_FATAL_FAILURE(Disaster());
    for (const JobRequest& request : requests) ASSERT_NO_FATAL_FAILURE(SeeToTheEnd(request));
  }
  // A job that failed has a reason, and a new attempt succeeds.
  void SeeToTheEnd(JobRequest request) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      auto result = set_->RunJob(request, std::chrono::seconds(180));
      ASSERT_OK(result);
      // Posted once more it stays as it ended.
      auto again = set_->client(0).Post(set_->ctx(), request);
      ASSERT_OK(again);
      EXPECT_EQ(again->state, result->state);
      EXPECT_EQ(again->end_time, result->end_time);
      EXPECT_EQ(again->runs, result->runs);
      if (result->state == JobState::kSucceeded) return;
      fprintf(stderr, "%s failed: %s\n", std::string(KindName(request.kind)).c_str(),
              result->message.c_str());
      EXPECT_EQ(result->state, JobState::kFailed);
      EXPECT_FALSE(result->message.empty());
      request.name = RandomUuid();
    }
    ADD_FAILURE() << "four attempts failed";
  }
  JobRequest SyncTo(const std::string& path) {
    JobRequest request{.kind = JobKind::kSync, .name = RandomUuid()};
    request.sources = {{.uri = "file://" + set_->Path("source") + "/",
                        .path = path,
                        .credentials = {.access_key = "a", .secret_key = Secret("b")}}};
    return request;
  }
  void ExpectWhole(const std::string& path) {
    auto reader = set_->OpenReader(0);
    ASSERT_OK(reader);
    for (const std::string& file : files_) {
      auto text = reader->ReadFile(set_->ctx(), path + "/" + file);
      ASSERT_OK(text);
      ASSERT_TRUE(*text == ContentOf(file, kSize)) << file;
    }
  }
  void ExpectGone(const std::string& path) {
    auto reader = set_->OpenReader(0);
    ASSERT_OK(reader);
    EXPECT_CODE(reader->volume->meta().Resolve(set_->ctx(), {}, volume::kRootIno, path),
                Code::kNotFound);
  }
  void ExpectSound() {
    auto reader = set_->OpenReader(0);
    ASSERT_OK(reader);
    volume::Volume& volume = *reader->volume;
    auto report = volume::data::Fsck(set_->ctx(), volume.meta(), volume.objects(),
                                     volume.setting().layout(), true);
    ASSERT_OK(report);
    for (const auto& problem : report->problems) {
      ADD_FAILURE() << problem.path << ": " << KindName(problem.kind) << ": " << problem.detail;
    }
  }

  std::mt19937 random_;
  std::vector<int> victims_;
  std::unique_ptr<RuntimeSet> set_;
  std::vector<std::string> files_;
};

std::string Round(int round) { return "round-" + std::to_string(round); }

// In each round a new path is imported, the one before is warmed and the one before that is
// removed; a fourth is cleared and warmed again. Imports share no blocks.
TEST_F(RuntimeKill, EveryKindOfJobSurvives) {
  for (const std::string& path : {Round(-2), Round(-1), std::string("steady")}) {
    ASSERT_NO_FATAL_FAILURE(SeeToTheEnd(SyncTo(path)));
  }
  for (int round = 0; round < Rounds(); ++round) {
    SCOPED_TRACE(Round(round));
    JobRequest warmup{.kind = JobKind::kWarmup, .name = RandomUuid()};
    warmup.warmup.paths = {Round(round - 1)};
    JobRequest clear{.kind = JobKind::kClear, .name = RandomUuid()};
    clear.paths.paths = {"steady"};
    JobRequest rmr{.kind = JobKind::kRmr, .name = RandomUuid()};
    rmr.paths.paths = {Round(round - 2)};
    ASSERT_NO_FATAL_FAILURE(Survive({SyncTo(Round(round)), warmup, clear, rmr}));
    ASSERT_NO_FATAL_FAILURE(ExpectWhole(Round(round)));
    ASSERT_NO_FATAL_FAILURE(ExpectGone(Round(round - 2)));
    // A runtime that was just started again may not answer yet.
    EXPECT_TRUE(WaitFor([&] {
      const auto total = set_->Total();
      return total && total->pinned_size >= kFiles * kSize;
    }));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectWhole("steady"));
  ASSERT_NO_FATAL_FAILURE(ExpectSound());
  ASSERT_NO_FATAL_FAILURE(SeeToTheEnd({.kind = JobKind::kClear, .name = RandomUuid()}));
  EXPECT_EQ(set_->Total()->cached_size, 0U);
}

}  // namespace
}  // namespace paddleop::testing
