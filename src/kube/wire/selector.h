// Label and field selectors, as lists and watches take them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paddleop::kube {

// Requirements that all hold: "a=b,c!=d,e in (x,y),f notin (z),g,!h".
class Selector {
 public:
  // The value of a label or field, or nullopt if there is none.
  using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

  // The empty text selects everything. kInvalid quotes the part that is wrong.
  static Result<Selector> Parse(std::string_view text);

  bool Matches(const Lookup& lookup) const;
  bool empty() const { return requirements_.empty(); }

 private:
  enum class Operator { kIn, kNotIn, kExists, kAbsent };
  struct Requirement {
    std::string name;
    Operator op = Operator::kIn;
    std::vector<std::string> values;
  };

  static Result<Requirement> ParseRequirement(std::string_view text);

  std::vector<Requirement> requirements_;
};

}  // namespace paddleop::kube
