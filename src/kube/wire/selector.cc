#include "kube/wire/selector.h"
#include "base/bytes.h"

#include <algorithm>

namespace paddleop::kube {
namespace {

// Splits at commas that are not inside parentheses.
std::vector<std::string_view> SplitRequirements(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(Trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  return parts;
}

bool IsName(std::string_view text) {
  return !text.empty() && text.find_first_of(" \t=!(),") == std::string_view::npos;
}

}  // namespace

Result<Selector> Selector::Parse(std::string_view text) {
  Selector out;
  if (Trimmed(text).empty()) return out;
  for (const std::string_view part : SplitRequirements(text)) {
    ASSIGN_OR_RETURN(Requirement requirement, ParseRequirement(part));
    out.requirements_.push_back(std::move(requirement));
  }
  return out;
}

Result<Selector::Requirement> Selector::ParseRequirement(std::string_view text) {
  const auto wrong = [&] { return Fail(Code::kInvalid, "selector: cannot read \"{}\"", text); };
  if (text.starts_with('!')) {
    const std::string_view name = Trimmed(text.substr(1));
    if (!IsName(name)) return wrong();
    return Requirement{std::string(name), Operator::kAbsent, {}};
  }
  if (text.ends_with(')')) {
    const std::size_t open = text.find('(');
    const std::size_t space = text.find_first_of(" \t");
    if (open == std::string_view::npos || space == std::string_view::npos || space > open)
      return wrong();
    const std::string_view word = Trimmed(text.substr(space, open - space));
    Requirement out{
        std::string(text.substr(0, space)), word == "in" ? Operator::kIn : Operator::kNotIn, {}};
    if ((word != "in" && word != "notin") || !IsName(out.name)) return wrong();
    for (const std::string_view value :
         SplitRequirements(text.substr(open + 1, text.size() - open - 2)))
      out.values.emplace_back(value);
    return out;
  }
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    if (!IsName(text)) return wrong();
    return Requirement{std::string(text), Operator::kExists, {}};
  }
  const bool negated = equals > 0 && text[equals - 1] == '!';
  std::string_view value = text.substr(equals + 1);
  if (!negated && value.starts_with('=')) value.remove_prefix(1);
  const std::string_view name = Trimmed(text.substr(0, negated ? equals - 1 : equals));
  value = Trimmed(value);
  if (!IsName(name) || (!value.empty() && !IsName(value))) return wrong();
  return Requirement{
      std::string(name), negated ? Operator::kNotIn : Operator::kIn, {std::string(value)}};
}

bool Selector::Matches(const Lookup& lookup) const {
  return std::ranges::all_of(requirements_, [&](const Requirement& requirement) {
    const std::optional<std::string> value = lookup(requirement.name);
    const bool listed =
        value && std::ranges::find(requirement.values, *value) != requirement.values.end();
    switch (requirement.op) {
      case Operator::kIn:
        return listed;
      case Operator::kNotIn:
        return !listed;
      case Operator::kExists:
        return value.has_value();
      case Operator::kAbsent:
        return !value.has_value();
    }
    return false;
  });
}

}  // namespace paddleop::kube
