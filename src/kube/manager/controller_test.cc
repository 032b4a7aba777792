#include "kube/manager/controller.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <set>

#include "kube/testing/wait_until.h"

namespace paddleop::kube {
namespace {

using testing::WaitUntil;

class Script final : public Reconciler {
 public:
  using Step = std::function<Result<Requeue>(const Context&, const ObjectKey&, int call)>;
  explicit Script(Step step) : step_(std::move(step)) {}
  Result<Requeue> Reconcile(const Context& ctx, const ObjectKey& key) override {
    return step_(ctx, key, calls_++);
  }
  int calls() const { return calls_; }

 private:
  Step step_;
  std::atomic<int> calls_ = 0;
};

class ControllerTest : public ::testing::Test {
 protected:
  ControllerOptions Options(std::size_t workers = 2) {
    return {.name = "test",
            .workers = workers,
            .backoff = {.initial = std::chrono::milliseconds(1),
                        .maximum = std::chrono::milliseconds(4)}};
  }
  double Count(const char* result) {
    return metrics_
        .AddCounter("paddleop_kube_reconciles_total", "",
                    {{"controller", "test"}, {"result", result}})
        .Value();
  }
  Logger log_{LogLevel::kOff};
  MetricsRegistry metrics_;
};

TEST_F(ControllerTest, KeysAddedBeforeTheStartAreNotLost) {
  Script script([](const Context&, const ObjectKey&, int) { return Requeue{}; });
  Controller controller(Options(), script, log_, metrics_);
  controller.Add({"n", "a"});
  controller.Add({"n", "b"});
  EXPECT_EQ(script.calls(), 0);
  controller.Start();
  EXPECT_TRUE(WaitUntil([&] { return Count("success") == 2; }));
}

TEST_F(ControllerTest, FailuresComeAgainUntilTheySucceed) {
  Script script([](const Context&, const ObjectKey&, int call) -> Result<Requeue> {
    if (call < 3) return Fail(Code::kUnavailable, "not yet");
    return Requeue{};
  });
  Controller controller(Options(), script, log_, metrics_);
  controller.Start();
  controller.Add({"n", "a"});
  EXPECT_TRUE(WaitUntil([&] { return Count("success") == 1; }));
  EXPECT_EQ(Count("error"), 3);
  EXPECT_EQ(controller.queue().failures({"n", "a"}), 0);
}

TEST_F(ControllerTest, ARequeueComesAgainAfterItsTime) {
  Script script([](const Context&, const ObjectKey&, int call) {
    return call == 0 ? Requeue{.after = std::chrono::milliseconds(5)} : Requeue{};
  });
  Controller controller(Options(), script, log_, metrics_);
  controller.Start();
  controller.Add({"n", "a"});
  EXPECT_TRUE(WaitUntil([&] { return Count("success") == 1; }));
  EXPECT_EQ(Count("requeue"), 1);
  EXPECT_EQ(script.calls(), 2);
}

TEST_F(ControllerTest, WorkersRunSideBySideButNeverOnOneKey) {
  std::mutex mutex;
  std::set<std::string> busy;
  std::size_t most = 0;
  Script script([&](const Context&, const ObjectKey& key, int) {
    {
      std::lock_guard lock(mutex);
      EXPECT_TRUE(busy.insert(key.name).second);
      most = std::max(most, busy.size());
    }
    WaitUntil(
        [&] {
          std::lock_guard lock(mutex);
          return most == 3;
        },
        std::chrono::seconds(5));
    std::lock_guard lock(mutex);
    busy.erase(key.name);
    return Requeue{};
  });
  Controller controller(Options(3), script, log_, metrics_);
  controller.Start();
  for (const char* name : {"a", "a", "b", "b", "c", "c"}) controller.Add({"n", name});
  EXPECT_TRUE(WaitUntil([&] {
    std::lock_guard lock(mutex);
    return most == 3 && busy.empty() && controller.queue().ready() == 0;
  }));
}

TEST_F(ControllerTest, StopReachesARunningReconcile) {
  std::atomic<bool> running = false;
  Script script([&](const Context& ctx, const ObjectKey&, int) -> Result<Requeue> {
    running = true;
    EXPECT_TRUE(ctx.has_deadline());
    Clock::System().SleepFor(ctx, std::chrono::seconds(60));
    RETURN_IF_ERROR(ctx.Check());
    return Requeue{};
  });
  Controller controller(Options(), script, log_, metrics_);
  controller.Start();
  controller.Add({"n", "a"});
  ASSERT_TRUE(WaitUntil([&] { return running.load(); }));
  const auto begin = std::chrono::steady_clock::now();
  controller.Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(Count("error"), 0) << "being stopped is no failure";
}

}  // namespace
}  // namespace paddleop::kube
