#include "fuse/exit_guard.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/testing/no_more_threads.h"

namespace paddleop::fuse {
namespace {

using namespace std::chrono_literals;

const Logger kGuardLog(LogLevel::kError);

TEST(ExitGuard, EndsTheProcessOnceItIsArmed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ExitGuard guard(100ms, kGuardLog);
        guard.Arm();
        guard.Arm();
        std::this_thread::sleep_for(60s);
      },
      ::testing::ExitedWithCode(1), "did not end in time");
}

TEST(ExitGuard, IsArmedWhereNoThreadCanBeStarted) {
  ExitGuard guard(60s, kGuardLog);
  const paddleop::testing::NoMoreThreads none;
  EXPECT_ANY_THROW(std::jthread([] {}));
  EXPECT_NO_THROW(guard.Arm());
}

TEST(ExitGuard, EndsWithoutBeingArmed) { const ExitGuard guard(60s, kGuardLog); }

}  // namespace
}  // namespace paddleop::fuse
