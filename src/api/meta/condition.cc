#include "api/meta/condition.h"

#include <algorithm>

namespace paddleop::api {

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  for (const auto& condition : conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

bool IsConditionTrue(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* found = FindCondition(conditions, type);
  return found != nullptr && found->status == kStatusTrue;
}

void SetCondition(std::vector<Condition>& conditions, Condition condition, Time now) {
  for (auto& existing : conditions) {
    if (existing.type != condition.type) continue;
    const bool same_status = existing.status == condition.status && existing.last_transition_time;
    condition.last_transition_time = same_status ? existing.last_transition_time : now;
    existing = std::move(condition);
    return;
  }
  condition.last_transition_time = now;
  conditions.push_back(std::move(condition));
}

void RemoveCondition(std::vector<Condition>& conditions, std::string_view type) {
  std::erase_if(conditions, [&](const Condition& c) { return c.type == type; });
}

}  // namespace paddleop::api
