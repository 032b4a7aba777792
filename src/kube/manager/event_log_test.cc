#include "kube/manager/event_log.h"

#include <gtest/gtest.h>

namespace paddleop::kube {
namespace {

PendingEvent Event(std::string message, std::string object = "a") {
  return {.about = {.api_version = "v1",
                    .kind = "Pod",
                    .ns = "n",
                    .name = std::move(object),
                    .uid = "u"},
          .reason = "Because",
          .message = std::move(message)};
}

TEST(EventQueue, CountsWhatIsSaidAgainAndHasALimit) {
  EventQueue queue(2);
  EXPECT_TRUE(queue.Push(Event("x")));
  EXPECT_TRUE(queue.Push(Event("y")));
  EXPECT_TRUE(queue.Push(Event("x")));
  EXPECT_FALSE(queue.Push(Event("z")));
  EXPECT_EQ(queue.Pop()->count, 2);
  EXPECT_EQ(queue.Pop()->message, "y");
  EXPECT_FALSE(queue.Pop());
  EXPECT_TRUE(queue.Push(Event("x")));
  EXPECT_EQ(queue.Pop()->count, 1);
}

TEST(EventThrottle, LetsABurstThroughAndThenOneAtATime) {
  EventThrottle throttle(3, std::chrono::seconds(10), 100);
  EventThrottle::TimePoint now{};
  const ObjectReference a = Event("").about, b = Event("", "b").about;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(throttle.Admit(a, now));
  EXPECT_FALSE(throttle.Admit(a, now));
  EXPECT_TRUE(throttle.Admit(b, now)) << "each object for itself";
  now += std::chrono::seconds(10);
  EXPECT_TRUE(throttle.Admit(a, now));
  EXPECT_FALSE(throttle.Admit(a, now));
}

TEST(EventThrottle, RemembersABoundedNumberOfObjects) {
  EventThrottle throttle(1, std::chrono::seconds(10), 10);
  for (int i = 0; i < 1000; ++i)
    EXPECT_TRUE(throttle.Admit(Event("", "o" + std::to_string(i)).about, {}));
}

TEST(EventMemory, ForgetsTheOldestAndTheOld) {
  EventMemory memory(2, std::chrono::minutes(60));
  const WallTime now{};
  memory.Remember("a", {.name = "a", .count = 1, .last = now});
  memory.Remember("b", {.name = "b", .count = 1, .last = now});
  memory.Remember("a", {.name = "a", .count = 2, .last = now});
  memory.Remember("c", {.name = "c", .count = 1, .last = now});
  EXPECT_EQ(memory.size(), 2u);
  EXPECT_EQ(memory.Find("b", now), nullptr);
  ASSERT_NE(memory.Find("a", now), nullptr);
  EXPECT_EQ(memory.Find("a", now)->count, 2);
  EXPECT_EQ(memory.Find("a", now + std::chrono::minutes(60)), nullptr);
}

}  // namespace
}  // namespace paddleop::kube
