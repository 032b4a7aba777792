#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <system_error>

#include "base/testing/matchers.h"
#include "base/testing/refused_threads.h"

namespace paddleop {
namespace {

using namespace std::chrono_literals;

TEST(ThreadPool, RunsEverythingItAccepted) {
  std::atomic<int> done = 0;
  {
    ThreadPool pool({.name = "t", .threads = 3, .queue_limit = 4});
    for (int i = 0; i < 100; ++i) ASSERT_OK(pool.Submit(Context::Background(), [&] { ++done; }));
  }
  EXPECT_EQ(done, 100);
}

TEST(ThreadPool, AFullQueueMakesTheCallerWaitUntilItsDeadline) {
  ThreadPool pool({.name = "t", .threads = 1, .queue_limit = 1});
  std::latch started(1), release(1);
  ASSERT_OK(pool.Submit(Context::Background(), [&] {
    started.count_down();
    release.wait();
  }));
  started.wait();
  ASSERT_TRUE(pool.TrySubmit([] {}));
  EXPECT_FALSE(pool.TrySubmit([] {}));
  EXPECT_CODE(pool.Submit(Context::Background().WithTimeout(5ms), [] {}), Code::kDeadline);
  std::stop_source source;
  source.request_stop();
  EXPECT_CODE(pool.Submit(Context::Background().WithStop(source.get_token()), [] {}),
              Code::kCancelled);
  release.count_down();
  pool.Drain();
  EXPECT_EQ(pool.queued(), 0u);
}

TEST(ThreadPool, RefusesAfterStop) {
  ThreadPool pool({.name = "t", .threads = 1, .queue_limit = 1});
  pool.Stop();
  EXPECT_CODE(pool.Submit(Context::Background(), [] {}), Code::kUnavailable);
  EXPECT_FALSE(pool.TrySubmit([] {}));
}

TEST(ThreadPool, WithoutAllItsThreadsThereIsNone) {
  const testing::RefusedThreads refused(2);
  EXPECT_THROW(ThreadPool({.name = "t", .threads = 3}), std::system_error);
}

}  // namespace
}  // namespace paddleop
