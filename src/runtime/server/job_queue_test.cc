#include "runtime/server/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <latch>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"

namespace paddleop::runtime {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::Not;

class FunctionRunner : public JobRunner {
 public:
  using Work = std::function<Result<std::string>(const Context&, const JobRequest&, JobReporter&)>;
  explicit FunctionRunner(Work work) : work_(std::move(work)) {}
  Result<std::string> Run(const Context& ctx, const JobRequest& request,
                          JobReporter& report) override {
    ++runs;
    return work_(ctx, request, report);
  }
  std::atomic<int> runs = 0;

 private:
  const Work work_;
};

Result<std::string> WaitForStop(const Context& ctx, const JobRequest&, JobReporter&) {
  while (Clock::System().SleepFor(ctx, seconds(60))) {
  }
  return Fail(Code::kCancelled, "stopped");
}

class JobQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::Create();
    ASSERT_OK(dir);
    dir_.emplace(*std::move(dir));
  }
  std::unique_ptr<JobQueue> Open(JobRunner& runner, JobQueueOptions options = {}) {
    options.directory = dir_->File("jobs");
    auto queue = JobQueue::Open(std::move(options), runner, runner, log_, metrics_);
    EXPECT_OK(queue);
    (*queue)->Start();
    return *std::move(queue);
  }
  static JobRequest Rmr(std::string path = "a") {
    JobRequest request{.kind = JobKind::kRmr, .name = RandomUuid()};
    request.paths.paths = {std::move(path)};
    return request;
  }
  static JobRequest Sync() {
    JobRequest request{.kind = JobKind::kSync, .name = RandomUuid()};
    request.sources = {{.uri = "s3://b.host/p",
                        .credentials = {.access_key = "ak", .secret_key = Secret("sesame")}}};
    return request;
  }
  // Waits until the job is in this state.
  static ::testing::AssertionResult Reaches(JobQueue& queue, const JobRequest& request,
                                            JobState state) {
    const auto end = steady_clock::now() + seconds(60);
    Result<JobResult> result = Fail(Code::kNotFound, "not asked");
    while (steady_clock::now() < end) {
      result = queue.Get(request.kind, request.name);
      if (result && result->state == state) return ::testing::AssertionSuccess();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return ::testing::AssertionFailure()
           << (result ? std::string(StateName(result->state)) + ": " + result->message
                      : result.error().ToString());
  }

  std::optional<TempDir> dir_;
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
};

TEST_F(JobQueueTest, RunsAJobOnceHoweverOftenItIsPosted) {
  FunctionRunner runner([](const Context&, const JobRequest&, JobReporter& report) {
    report.Progress({.total = 2, .done = 2}, {.total = 10, .done = 10});
    return Result<std::string>("removed");
  });
  auto queue = Open(runner);
  const JobRequest request = Rmr();
  ASSERT_OK(queue->Post(request));
  ASSERT_TRUE(Reaches(*queue, request, JobState::kSucceeded));
  for (int i = 0; i < 3; ++i) {
    auto again = queue->Post(request);
    ASSERT_OK(again);
    EXPECT_EQ(again->state, JobState::kSucceeded);
  }
  queue = Open(runner);
  auto later = queue->Post(request);
  ASSERT_OK(later);
  EXPECT_EQ(later->state, JobState::kSucceeded);
  EXPECT_EQ(later->message, "removed");
  EXPECT_EQ(later->progress.bytes.done, 10);
  EXPECT_EQ(runner.runs, 1);
}

// Whoever looks into the journal at any moment sees whole records.
TEST_F(JobQueueTest, C12_RecordsAreWrittenWholeOrNotAtAll) {
  FunctionRunner runner([](const Context&, const JobRequest&, JobReporter& report) {
    for (int i = 0; i < 20; ++i) report.Progress({.total = 20, .done = i}, {});
    return Result<std::string>(std::string(20'000, 'x'));
  });
  auto queue = Open(runner);
  std::atomic<int> seen = 0, broken = 0;
  std::jthread looker([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const auto& entry : std::filesystem::directory_iterator(dir_->File("jobs"))) {
        if (entry.path().extension() != ".json") continue;
        const auto text = ReadFile(entry.path(), 1 << 20);
        if (!text) continue;  // it was removed meanwhile
        ++seen;
        if (!text->ends_with("}") && !text->ends_with("}\n")) ++broken;
      }
    }
  });
  JobRequest request = Rmr();
  for (int i = 0; i < 20 || seen < 20; ++i) {
    request = Rmr(std::string(200, 'p'));
    ASSERT_OK(queue->Post(request));
    ASSERT_TRUE(Reaches(*queue, request, JobState::kSucceeded));
  }
  looker.request_stop();
  looker.join();
  EXPECT_EQ(broken, 0);
}

TEST_F(JobQueueTest, RefusesANameThatWasUsedForSomethingElse) {
  FunctionRunner runner(WaitForStop);
  auto queue = Open(runner);
  JobRequest request = Rmr("a");
  ASSERT_OK(queue->Post(request));
  request.paths.paths = {"b"};
  EXPECT_CODE(queue->Post(request), Code::kConflict);
}

TEST_F(JobQueueTest, GoesOnAfterARestart) {
  FunctionRunner endless(WaitForStop);
  const JobRequest request = Rmr();
  {
    auto queue = Open(endless);
    ASSERT_OK(queue->Post(request));
    ASSERT_TRUE(Reaches(*queue, request, JobState::kRunning));
  }
  FunctionRunner quick(
      [](const Context&, const JobRequest&, JobReporter&) { return Result<std::string>("ok"); });
  auto queue = Open(quick);
  ASSERT_TRUE(Reaches(*queue, request, JobState::kSucceeded));
  EXPECT_EQ(queue->Get(request.kind, request.name)->runs, 2U);
}

TEST_F(JobQueueTest, AsksForCredentialsAfterARestartAndNeverWritesThem) {
  FunctionRunner endless(WaitForStop);
  const JobRequest request = Sync();
  {
    auto queue = Open(endless);
    ASSERT_OK(queue->Post(request));
    ASSERT_TRUE(Reaches(*queue, request, JobState::kRunning));
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir_->File("jobs"))) {
    auto text = ReadFile(entry.path().string());
    ASSERT_OK(text);
    EXPECT_THAT(*text, Not(HasSubstr("sesame")));
  }
  std::string seen;
  FunctionRunner quick([&](const Context&, const JobRequest& r, JobReporter&) {
    seen = r.sources[0].credentials.secret_key.Reveal();
    return Result<std::string>("ok");
  });
  auto queue = Open(quick);
  auto waiting = queue->Get(request.kind, request.name);
  ASSERT_OK(waiting);
  EXPECT_EQ(waiting->state, JobState::kNeedsCredentials);
  EXPECT_EQ(quick.runs, 0);
  ASSERT_OK(queue->Post(request));
  ASSERT_TRUE(Reaches(*queue, request, JobState::kSucceeded));
  EXPECT_EQ(seen, "sesame");
  auto stored = queue->GetRequest(request.kind, request.name);
  ASSERT_OK(stored);
  EXPECT_TRUE(stored->sources[0].credentials.empty());
}

TEST_F(JobQueueTest, GivesUpWaitingForCredentials) {
  FunctionRunner runner(WaitForStop);
  const JobRequest request = Sync();
  {
    auto queue = Open(runner);
    ASSERT_OK(queue->Post(request));
    ASSERT_TRUE(Reaches(*queue, request, JobState::kRunning));
  }
  auto queue = Open(runner, {.credentials_patience = seconds(0)});
  ASSERT_OK(queue->Post(Rmr()));
  auto result = queue->Get(request.kind, request.name);
  ASSERT_OK(result);
  EXPECT_EQ(result->state, JobState::kFailed);
  EXPECT_THAT(result->message, HasSubstr("credentials"));
}

TEST_F(JobQueueTest, CancelsWhatRunsAndWhatWaits) {
  FunctionRunner runner(WaitForStop);
  auto queue = Open(runner, {.whole_workers = 1});
  const JobRequest running = Rmr("a");
  const JobRequest waiting = Rmr("b");
  ASSERT_OK(queue->Post(running));
  ASSERT_TRUE(Reaches(*queue, running, JobState::kRunning));
  ASSERT_OK(queue->Post(waiting));
  auto cancelled = queue->Cancel(waiting.name);
  ASSERT_OK(cancelled);
  EXPECT_EQ(cancelled->state, JobState::kCancelled);
  queue->CancelAll();
  ASSERT_TRUE(Reaches(*queue, running, JobState::kCancelled));
  EXPECT_EQ(runner.runs, 1);
  EXPECT_CODE(queue->Cancel(RandomUuid()), Code::kNotFound);
}

TEST_F(JobQueueTest, FailsAJobThatTakesTheProcessDownAgainAndAgain) {
  FunctionRunner runner(WaitForStop);
  const JobRequest request = Rmr();
  {
    auto queue = Open(runner);
    ASSERT_OK(queue->Post(request));
    ASSERT_TRUE(Reaches(*queue, request, JobState::kRunning));
  }
  auto queue = Open(runner, {.max_runs = 1});
  auto result = queue->Get(request.kind, request.name);
  ASSERT_OK(result);
  EXPECT_EQ(result->state, JobState::kFailed);
  EXPECT_THAT(result->message, HasSubstr("restarted"));
}

TEST_F(JobQueueTest, LongJobsDoNotBlockOthers) {
  FunctionRunner runner([](const Context& ctx, const JobRequest& request, JobReporter& report) {
    if (request.kind == JobKind::kSync) return WaitForStop(ctx, request, report);
    return Result<std::string>("ok");
  });
  auto queue = Open(runner);
  const JobRequest sync = Sync();
  ASSERT_OK(queue->Post(sync));
  ASSERT_TRUE(Reaches(*queue, sync, JobState::kRunning));
  const JobRequest rmr = Rmr();
  ASSERT_OK(queue->Post(rmr));
  ASSERT_TRUE(Reaches(*queue, rmr, JobState::kSucceeded));
}

TEST_F(JobQueueTest, HasLimits) {
  FunctionRunner runner(WaitForStop);
  auto queue = Open(runner, {.max_unfinished = 2});
  ASSERT_OK(queue->Post(Rmr()));
  ASSERT_OK(queue->Post(Rmr()));
  EXPECT_CODE(queue->Post(Rmr()), Code::kUnavailable);

  FunctionRunner quick(
      [](const Context&, const JobRequest&, JobReporter&) { return Result<std::string>("ok"); });
  queue->CancelAll();
  queue = Open(quick, {.keep_finished = 3});
  for (int i = 0; i < 6; ++i) {
    const JobRequest request = Rmr();
    ASSERT_OK(queue->Post(request));
    ASSERT_TRUE(Reaches(*queue, request, JobState::kSucceeded));
  }
  EXPECT_EQ(queue->List().size(), 3U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_->File("jobs")),
                          std::filesystem::directory_iterator{}),
            3);
}

TEST_F(JobQueueTest, SetsADamagedRecordAside) {
  ASSERT_OK(MakeDirectories(dir_->File("jobs")));
  const std::string name = RandomUuid();
  ASSERT_OK(WriteFileAtomic(dir_->File("jobs/" + name + ".json"), "{\"result\":"));
  FunctionRunner runner(WaitForStop);
  auto queue = Open(runner);
  EXPECT_TRUE(queue->List().empty());
  EXPECT_TRUE(std::filesystem::exists(dir_->File("jobs/" + name + ".damaged")));
}

}  // namespace
}  // namespace paddleop::runtime
