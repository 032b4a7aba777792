#include "controllers/sampleset/pass.h"

#include <algorithm>

namespace paddleop::controllers::sampleset {

void Pass::Say(const char* type, bool fine, std::string reason, std::string message,
               bool event_if_new) {
  if (event_if_new && (ReasonOf(type) != reason ||
                       api::FindCondition(plan.status.conditions, type)->message != message)) {
    plan.Tell(!fine, reason, message);
  }
  api::SetCondition(plan.status.conditions,
                    {.type = type,
                     .status = std::string(fine ? api::kStatusTrue : api::kStatusFalse),
                     .observed_generation = set.metadata.generation,
                     .reason = std::move(reason),
                     .message = std::move(message)},
                    seen.now);
}

std::chrono::seconds Pass::Since(const char* type) const {
  const api::Condition* found = api::FindCondition(plan.status.conditions, type);
  if (found == nullptr || !found->last_transition_time) return std::chrono::seconds(0);
  return seen.now - *found->last_transition_time;
}

std::string_view Pass::ReasonOf(const char* type) const {
  const api::Condition* found = api::FindCondition(plan.status.conditions, type);
  return found == nullptr ? std::string_view() : std::string_view(found->reason);
}

bool Pass::NodeLost(const std::string& name) const {
  const auto found = seen.nodes.find(name);
  return found != seen.nodes.end() && (!found->second || !found->second->ready);
}

bool IsServing(const RuntimeSeen& runtime) {
  return runtime.pod && !runtime.pod->metadata.Deleting() && !runtime.pod->node_name.empty() &&
         runtime.pod->phase == api::PodPhase::kRunning;
}

std::int32_t Pass::ReadyRuntimes(std::int32_t count) const {
  return static_cast<std::int32_t>(
      std::count_if(seen.runtimes.begin(), seen.runtimes.end(), [&](const RuntimeSeen& runtime) {
        return runtime.index < count && IsServing(runtime) && runtime.pod->ready;
      }));
}

const RuntimeSeen* Pass::Runtime(std::int32_t index) const {
  const auto it = std::find_if(seen.runtimes.begin(), seen.runtimes.end(),
                               [&](const RuntimeSeen& r) { return r.index == index; });
  return it == seen.runtimes.end() ? nullptr : &*it;
}

bool Pass::RuntimeZeroReady() const {
  const RuntimeSeen* zero = Runtime(0);
  return zero != nullptr && IsServing(*zero) && zero->pod->ready;
}

}  // namespace paddleop::controllers::sampleset
