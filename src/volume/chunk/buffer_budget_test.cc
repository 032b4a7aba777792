#include "volume/chunk/buffer_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/testing/matchers.h"

namespace paddleop::volume {
namespace {

using namespace std::chrono_literals;

TEST(BufferBudget, CallersWaitForWhatOthersGiveBack) {
  BufferBudget budget(100);
  auto first = budget.Acquire(Context::Background(), 80);
  ASSERT_OK(first);
  EXPECT_CODE(budget.Acquire(Context::Background().WithTimeout(5ms), 30), Code::kDeadline);
  std::jthread waiter(
      [&] { EXPECT_OK(budget.Acquire(Context::Background().WithTimeout(10s), 30)); });
  first->Release();
  waiter.join();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BufferBudget, MoreThanTheWholeGetsTheWhole) {
  BufferBudget budget(100);
  auto all = budget.Acquire(Context::Background(), 1000);
  ASSERT_OK(all);
  EXPECT_EQ(budget.used(), 100u);
}

TEST(BufferBudget, ALeaseCanGrow) {
  BufferBudget budget(100);
  BufferBudget::Lease lease;
  ASSERT_OK(budget.Extend(Context::Background(), lease, 40));
  ASSERT_OK(budget.Extend(Context::Background(), lease, 40));
  EXPECT_EQ(budget.used(), 80u);
  EXPECT_CODE(budget.Extend(Context::Background().WithTimeout(1ms), lease, 40), Code::kDeadline);
  lease.Release();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BufferBudget, WhoComesLaterDoesNotTakeWhatOneWhoWaitsNeeds) {
  BufferBudget budget(100);
  const Context ctx = Context::Background().WithTimeout(10s);
  BufferBudget::Lease mine, other;
  ASSERT_OK(budget.Extend(ctx, mine, 20));
  ASSERT_OK(budget.Extend(ctx, other, 50));
  std::atomic<bool> came = false;
  std::jthread large([&] {
    EXPECT_OK(budget.Acquire(ctx, 60));
    came = true;
  });
  // As soon as it waits, there is nothing for small ones, though bytes are free.
  Result<BufferBudget::Lease> small;
  do {
    small = budget.Acquire(Context::Background().WithTimeout(1ms), 10);
  } while (small && ctx.Check());
  EXPECT_CODE(small, Code::kDeadline);
  EXPECT_FALSE(came);
  // But for who would wait with bytes in hand that somebody may be waiting for.
  auto extended = budget.ExtendUnlessStuck(ctx, mine, 10);
  ASSERT_OK(extended);
  EXPECT_TRUE(*extended);
  std::jthread behind([&] { EXPECT_OK(budget.Acquire(ctx, 10)); });
  other.Release();
  large.join();
  behind.join();
  EXPECT_EQ(budget.used(), 30u);
}

TEST(BufferBudget, WhoGivesUpWaitingHoldsUpNobody) {
  BufferBudget budget(100);
  const Context ctx = Context::Background().WithTimeout(10s);
  BufferBudget::Lease mine;
  ASSERT_OK(budget.Extend(ctx, mine, 50));
  std::stop_source stop;
  std::jthread large(
      [&] { EXPECT_CODE(budget.Acquire(ctx.WithStop(stop.get_token()), 100), Code::kCancelled); });
  Result<BufferBudget::Lease> small;
  do {
    small = budget.Acquire(Context::Background().WithTimeout(1ms), 10);
  } while (small && ctx.Check());
  std::jthread behind([&] { EXPECT_OK(budget.Acquire(ctx, 10)); });
  stop.request_stop();
  large.join();
  behind.join();
  EXPECT_EQ(budget.used(), 50u);
}

TEST(BufferBudget, NobodyWaitsWithBytesForThoseWhoDoTheSame) {
  BufferBudget budget(100);
  const Context ctx = Context::Background().WithTimeout(10s);
  BufferBudget::Lease mine, other;
  ASSERT_OK(budget.Extend(ctx, mine, 50));
  ASSERT_OK(budget.Extend(ctx, other, 50));
  auto stuck = budget.ExtendUnlessStuck(ctx, mine, 10);
  ASSERT_OK(stuck);
  EXPECT_FALSE(*stuck);
  // While somebody's bytes are on their way out, it waits for them.
  other.SetLeaving(true);
  std::jthread waiter([&] {
    auto extended = budget.ExtendUnlessStuck(ctx, mine, 10);
    ASSERT_OK(extended);
    EXPECT_TRUE(*extended);
  });
  other.Release();
  waiter.join();
  EXPECT_EQ(budget.used(), 60u);
  ASSERT_OK(budget.Extend(ctx, other, 40));
  other.SetLeaving(true);
  std::jthread disappointed([&] {
    auto extended = budget.ExtendUnlessStuck(ctx, mine, 10);
    ASSERT_OK(extended);
    EXPECT_FALSE(*extended) << "they stay after all";
  });
  other.SetLeaving(false);
}

}  // namespace
}  // namespace paddleop::volume
