#include "api/meta/condition.h"

#include <gtest/gtest.h>

namespace paddleop::api {
namespace {

Condition Make(std::string status, std::string message) {
  Condition condition;
  condition.type = "Ready";
  condition.status = std::move(status);
  condition.reason = "Test";
  condition.message = std::move(message);
  return condition;
}

TEST(SetCondition, MovesTheTransitionTimeOnlyWithTheStatus) {
  const Time first{std::chrono::seconds(100)};
  const Time later{std::chrono::seconds(200)};
  std::vector<Condition> conditions;
  SetCondition(conditions, Make("False", "a"), first);
  SetCondition(conditions, Make("False", "b"), later);
  ASSERT_EQ(conditions.size(), 1u);
  EXPECT_EQ(conditions[0].message, "b");
  EXPECT_EQ(conditions[0].last_transition_time, first);
  SetCondition(conditions, Make("True", "b"), later);
  EXPECT_EQ(conditions[0].last_transition_time, later);
  EXPECT_TRUE(IsConditionTrue(conditions, "Ready"));
  RemoveCondition(conditions, "Ready");
  EXPECT_EQ(FindCondition(conditions, "Ready"), nullptr);
}

}  // namespace
}  // namespace paddleop::api
