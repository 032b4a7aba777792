// What our kinds must satisfy beyond their types. Each rule stands here once, in both languages: as
// the CEL expression that the CRD carries, so that the API server refuses bad objects at once, and
// as the C++ that controllers and the standalone API server run. tests/data/validation.json holds
// the two together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/batch/paddle_job.h"
#include "api/batch/sample_job.h"
#include "api/batch/sample_set.h"

namespace paddleop::api {

template <class T>
struct Rule {
  std::string_view field;  // where the rule stands in the schema; empty: the object itself
  std::string_view cel;    // over `self`, the value of that field; not evaluated where it is absent
  std::string_view message;  // what a user reads
  bool (*holds)(const T& object) = nullptr;
  // For rules about changes (CEL has oldSelf): null for the others.
  bool (*allows)(const T& before, const T& after) = nullptr;
};

std::span<const Rule<PaddleJob>> PaddleJobRules();
std::span<const Rule<SampleSet>> SampleSetRules();
std::span<const Rule<SampleJob>> SampleJobRules();

struct Violation {
  std::string field;
  std::string message;

  bool operator==(const Violation&) const = default;
};

// Everything that is wrong, in the order of the rules. Empty: valid.
std::vector<Violation> Validate(const PaddleJob& job);
std::vector<Violation> Validate(const SampleSet& set);
std::vector<Violation> Validate(const SampleJob& job);
// Also what may not change.
std::vector<Violation> ValidateUpdate(const PaddleJob& before, const PaddleJob& after);
std::vector<Violation> ValidateUpdate(const SampleSet& before, const SampleSet& after);
std::vector<Violation> ValidateUpdate(const SampleJob& before, const SampleJob& after);

// "spec.worker: replicas must be ...; spec: ...", for a condition or a log line.
std::string Describe(const std::vector<Violation>& violations);

// The largest number of pods in one role.
inline constexpr std::int32_t kMaxReplicas = 10000;

}  // namespace paddleop::api
