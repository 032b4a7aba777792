#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta/time.h"

namespace paddleop::api {

inline constexpr std::string_view kStatusTrue = "True";
inline constexpr std::string_view kStatusFalse = "False";
inline constexpr std::string_view kStatusUnknown = "Unknown";

// metav1.Condition.
struct Condition {
  std::string type;
  std::string status;
  std::int64_t observed_generation = 0;
  std::optional<Time> last_transition_time;
  std::string reason;   // CamelCase, stable: programs read it
  std::string message;  // for people: what to do about it

  bool operator==(const Condition&) const = default;
};

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);
bool IsConditionTrue(const std::vector<Condition>& conditions, std::string_view type);

// Adds or replaces the condition of that type. The transition time moves to `now` only if the
// status changed, so that setting the same condition twice changes nothing.
void SetCondition(std::vector<Condition>& conditions, Condition condition, Time now);
void RemoveCondition(std::vector<Condition>& conditions, std::string_view type);

}  // namespace paddleop::api
