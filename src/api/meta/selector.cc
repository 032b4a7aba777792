#include "api/meta/selector.h"

#include <algorithm>

#include "api/internal/fields.h"

namespace paddleop::api {
namespace {

using Operator = LabelRequirement::Operator;

struct WireRequirement {
  std::string key;
  std::string op;
  std::vector<std::string> values;
};
template <class Io>
void Describe(Io& io, WireRequirement& r) {
  io("key", r.key);
  io("operator", r.op);
  io("values", r.values);
}

struct WireSelector {
  StringMap match_labels;
  std::vector<WireRequirement> match_expressions;
};
template <class Io>
void Describe(Io& io, WireSelector& s) {
  io("matchLabels", s.match_labels);
  io("matchExpressions", s.match_expressions);
}

bool Holds(const LabelRequirement& requirement, const StringMap& labels) {
  const auto it = labels.find(requirement.key);
  const bool present = it != labels.end();
  const auto& values = requirement.values;
  const bool listed =
      present && std::find(values.begin(), values.end(), it->second) != values.end();
  switch (requirement.op) {
    case Operator::kIn:
      return listed;
    case Operator::kNotIn:
      return !listed;
    case Operator::kExists:
      return present;
    case Operator::kDoesNotExist:
      return !present;
  }
  return false;
}

}  // namespace

bool LabelSelector::Matches(const StringMap& labels) const {
  for (const auto& [key, value] : match_labels) {
    const auto it = labels.find(key);
    if (it == labels.end() || it->second != value) return false;
  }
  return std::all_of(match_expressions.begin(), match_expressions.end(),
                     [&](const LabelRequirement& r) { return Holds(r, labels); });
}

std::string LabelSelector::ToQuery() const {
  std::string out;
  const auto add = [&](std::string_view part) {
    if (!out.empty()) out += ',';
    out += part;
  };
  for (const auto& [key, value] : match_labels) add(fmt::format("{}={}", key, value));
  for (const auto& r : match_expressions) {
    switch (r.op) {
      case Operator::kIn:
        add(fmt::format("{} in ({})", r.key, fmt::join(r.values, ",")));
        break;
      case Operator::kNotIn:
        add(fmt::format("{} notin ({})", r.key, fmt::join(r.values, ",")));
        break;
      case Operator::kExists:
        add(r.key);
        break;
      case Operator::kDoesNotExist:
        add("!" + r.key);
        break;
    }
  }
  return out;
}

Result<LabelSelector> LabelSelectorFromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto wire, internal::Read<WireSelector>(json, "selector"));
  LabelSelector selector;
  selector.match_labels = std::move(wire.match_labels);
  for (auto& r : wire.match_expressions) {
    LabelRequirement requirement{std::move(r.key), Operator::kExists, std::move(r.values)};
    if (r.op == "In") {
      requirement.op = Operator::kIn;
    } else if (r.op == "NotIn") {
      requirement.op = Operator::kNotIn;
    } else if (r.op == "DoesNotExist") {
      requirement.op = Operator::kDoesNotExist;
    } else if (r.op != "Exists") {
      return Fail(Code::kInvalid, "selector: unknown operator \"{}\"", r.op);
    }
    selector.match_expressions.push_back(std::move(requirement));
  }
  return selector;
}

}  // namespace paddleop::api
