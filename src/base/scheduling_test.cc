#include "base/scheduling.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace paddleop {
namespace {

TEST(SetThreadBatch, HoldsForTheThreadAndThoseItStarts) {
  int own = -1, child = -1;
  std::jthread([&] {
    SetThreadBatch();
    own = ::sched_getscheduler(0);
    std::jthread([&] { child = ::sched_getscheduler(0); }).join();
  }).join();
  EXPECT_EQ(own, SCHED_BATCH);
  EXPECT_EQ(child, SCHED_BATCH);
  EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "nobody else is concerned";
}

TEST(SetThreadBatch, LeavesAPolicyThatSomebodyChose) {
  int after = -1;
  std::jthread([&] {
    const sched_param none = {};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_IDLE, &none), 0);
    SetThreadBatch();
    after = ::sched_getscheduler(0);
  }).join();
  EXPECT_EQ(after, SCHED_IDLE);
}

}  // namespace
}  // namespace paddleop
