#include "kube/queue/work_queue.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "base/testing/manual_clock.h"
#include "kube/testing/wait_until.h"

namespace paddleop::kube {
namespace {

using paddleop::testing::ManualClock;
using std::chrono::milliseconds;

const ObjectKey kA{"n", "a"};
const ObjectKey kB{"n", "b"};

class WorkQueueTest : public ::testing::Test {
 protected:
  MetricsRegistry metrics_;
  ManualClock clock_;
  WorkQueue queue_{{.name = "test",
                    .backoff = {.initial = milliseconds(10),
                                .maximum = milliseconds(40),
                                .factor = 2.0,
                                .jitter = 0.0}},
                   metrics_,
                   clock_};
};

TEST_F(WorkQueueTest, AKeyIsThereOnce) {
  queue_.Add(kA);
  queue_.Add(kB);
  queue_.Add(kA);
  EXPECT_EQ(queue_.ready(), 2u);
  EXPECT_EQ(queue_.TryTake(), kA);
  EXPECT_EQ(queue_.TryTake(), kB);
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
}

TEST_F(WorkQueueTest, AKeyIsWithOneWorkerAtATime) {
  queue_.Add(kA);
  ASSERT_EQ(queue_.TryTake(), kA);
  queue_.Add(kA);
  queue_.Add(kA);
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
  queue_.Done(kA);
  EXPECT_EQ(queue_.TryTake(), kA) << "it changed while it was worked on";
  queue_.Done(kA);
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
  EXPECT_EQ(queue_.working(), 0u);
}

TEST_F(WorkQueueTest, DelaysEndWhenTheyEndAndTheFirstCounts) {
  queue_.AddAfter(kA, milliseconds(100));
  queue_.AddAfter(kA, milliseconds(50));
  queue_.AddAfter(kA, milliseconds(70));
  EXPECT_EQ(queue_.delayed(), 1u);
  clock_.Advance(milliseconds(49));
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
  clock_.Advance(milliseconds(1));
  EXPECT_EQ(queue_.TryTake(), kA);
  queue_.Done(kA);
  clock_.Advance(milliseconds(1000));
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
}

TEST_F(WorkQueueTest, AnAddDoesNotCancelADelay) {
  queue_.AddAfter(kA, milliseconds(50));
  queue_.Add(kA);
  EXPECT_EQ(queue_.TryTake(), kA);
  queue_.Done(kA);
  clock_.Advance(milliseconds(50));
  EXPECT_EQ(queue_.TryTake(), kA);
}

TEST_F(WorkQueueTest, BackOffGrowsPerKeyAndIsForgotten) {
  EXPECT_EQ(queue_.AddFailed(kA), milliseconds(10));
  EXPECT_EQ(queue_.AddFailed(kA), milliseconds(20));
  EXPECT_EQ(queue_.AddFailed(kB), milliseconds(10)) << "another key starts afresh";
  EXPECT_EQ(queue_.AddFailed(kA), milliseconds(40));
  EXPECT_EQ(queue_.AddFailed(kA), milliseconds(40)) << "the maximum";
  EXPECT_EQ(queue_.failures(kA), 4);
  queue_.Forget(kA);
  EXPECT_EQ(queue_.failures(kA), 0);
  EXPECT_EQ(queue_.AddFailed(kA), milliseconds(10));
}

TEST_F(WorkQueueTest, ShutdownWakesEverybodyAndTakesNothingMore) {
  queue_.Add(kB);
  ASSERT_EQ(queue_.TryTake(), kB);
  std::jthread waiter([&] { EXPECT_EQ(queue_.Take(Context::Background()), std::nullopt); });
  queue_.Shutdown();
  waiter.join();
  queue_.Add(kA);
  queue_.AddAfter(kA, milliseconds(1));
  EXPECT_EQ(queue_.TryTake(), std::nullopt);
  queue_.Done(kB);
  EXPECT_EQ(queue_.working(), 0u);
}

TEST(WorkQueue, AWorkerWakesForAnAddADelayAndAStop) {
  MetricsRegistry metrics;
  WorkQueue queue({}, metrics);
  std::stop_source stop;
  std::vector<ObjectKey> taken;
  std::jthread worker([&] {
    while (const auto key = queue.Take(Context::Background().WithStop(stop.get_token()))) {
      taken.push_back(*key);
      queue.Done(*key);
    }
  });
  queue.AddAfter(kB, milliseconds(20));
  queue.Add(kA);
  EXPECT_TRUE(testing::WaitUntil([&] { return queue.delayed() == 0 && queue.working() == 0; }));
  stop.request_stop();
  worker.join();
  EXPECT_THAT(taken, ::testing::ElementsAre(kA, kB));
  EXPECT_EQ(queue.Take(Context::Background().WithTimeout(milliseconds(5))), std::nullopt);
}

// Many threads add and work; no key is with two workers, and none is lost.
TEST(WorkQueue, HoldsUnderLoad) {
  MetricsRegistry metrics;
  WorkQueue queue({}, metrics);
  constexpr int kKeys = 20, kAdds = 2000;
  std::array<std::atomic<int>, kKeys> inside{}, wanted{}, done{};
  std::stop_source stop;
  std::vector<std::jthread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      while (const auto key = queue.Take(Context::Background().WithStop(stop.get_token()))) {
        const auto k = static_cast<std::size_t>(std::stoi(key->name));
        EXPECT_EQ(inside[k].fetch_add(1), 0);
        done[k] = wanted[k].load();
        inside[k].fetch_sub(1);
        queue.Done(*key);
      }
    });
  }
  {
    std::vector<std::jthread> adders;
    for (unsigned seed = 0; seed < 3; ++seed) {
      adders.emplace_back([&, seed] {
        std::minstd_rand random(seed);
        for (int i = 0; i < kAdds; ++i) {
          const auto k = static_cast<std::size_t>(random() % kKeys);
          wanted[k].fetch_add(1);
          if (i % 3 == 0) {
            queue.AddAfter({"", std::to_string(k)}, std::chrono::microseconds(random() % 500));
          } else {
            queue.Add({"", std::to_string(k)});
          }
        }
      });
    }
  }
  EXPECT_TRUE(
      testing::WaitUntil([&] { return queue.ready() + queue.delayed() + queue.working() == 0; }));
  stop.request_stop();
  workers.clear();
  for (std::size_t k = 0; k < kKeys; ++k) EXPECT_EQ(done[k], wanted[k]) << k;
}

}  // namespace
}  // namespace paddleop::kube
