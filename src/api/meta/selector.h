#pragma once

#include <string>
#include <vector>

#include "api/meta/object_meta.h"

namespace paddleop::api {

struct LabelRequirement {
  enum class Operator { kIn, kNotIn, kExists, kDoesNotExist };

  std::string key;
  Operator op = Operator::kExists;
  std::vector<std::string> values;

  bool operator==(const LabelRequirement&) const = default;
};

// metav1.LabelSelector. All requirements must hold; an empty selector matches everything.
struct LabelSelector {
  StringMap match_labels;
  std::vector<LabelRequirement> match_expressions;

  bool Matches(const StringMap& labels) const;
  // As the labelSelector query parameter spells it: "a=b,c in (d,e),!f".
  std::string ToQuery() const;

  bool operator==(const LabelSelector&) const = default;
};

// kInvalid on an unknown operator or a wrong type.
Result<LabelSelector> LabelSelectorFromJson(const Json& json);

}  // namespace paddleop::api
