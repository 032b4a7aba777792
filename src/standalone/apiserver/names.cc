#include "standalone/apiserver/internal/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace paddleop::standalone::apiserver {
namespace {

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlnum(char c) { return IsLower(c) || IsDigit(c) || (c >= 'A' && c <= 'Z'); }

bool IsDnsLabel(std::string_view name) {
  const auto edge = [](char c) { return IsLower(c) || IsDigit(c); };
  return !name.empty() && edge(name.front()) && edge(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return edge(c) || c == '-'; });
}

// Letters, digits, '-', '_' and '.', with a letter or digit at both ends.
bool IsNamePart(std::string_view name) {
  return !name.empty() && IsAlnum(name.front()) && IsAlnum(name.back()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

std::string TooLong(std::size_t limit) {
  return fmt::format("must be no more than {} characters", limit);
}

}  // namespace

std::optional<std::string> WrongSubdomain(std::string_view name) {
  if (name.size() > 253) return TooLong(253);
  std::string_view rest = name;
  while (true) {
    const auto dot = rest.find('.');
    if (!IsDnsLabel(rest.substr(0, dot))) break;
    if (dot == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(dot + 1);
  }
  return "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
         "or "
         "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
         "used "
         "for validation is "
         "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
}

std::optional<std::string> WrongLabelName(std::string_view name) {
  if (name.size() > 63) return TooLong(63);
  if (IsDnsLabel(name)) return std::nullopt;
  return "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
         "and "
         "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
         "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
}

std::optional<std::string> WrongServiceName(std::string_view name) {
  if (name.size() > 63) return TooLong(63);
  if (IsDnsLabel(name) && IsLower(name.front())) return std::nullopt;
  return "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
         "an "
         "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
         "'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
}

std::optional<std::string> WrongQualifiedName(std::string_view name) {
  const auto slash = name.find('/');
  std::string_view part = name;
  if (slash != std::string_view::npos) {
    const std::string_view prefix = name.substr(0, slash);
    part = name.substr(slash + 1);
    if (prefix.empty()) return "prefix part must be non-empty";
    if (const auto wrong = WrongSubdomain(prefix)) return "prefix part " + *wrong;
  }
  if (part.empty()) return "name part must be non-empty";
  if (part.size() > 63) return "name part " + TooLong(63);
  if (IsNamePart(part)) return std::nullopt;
  return "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
         "end "
         "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used "
         "for "
         "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
}

std::optional<std::string> WrongLabelValue(std::string_view value) {
  if (value.size() > 63) return TooLong(63);
  if (value.empty() || IsNamePart(value)) return std::nullopt;
  return "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
         "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
         "'my_value',  or '12345', regex used for validation is "
         "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
}

std::optional<std::string> WrongConfigKey(std::string_view key) {
  if (key.size() > 253) return TooLong(253);
  if (key == "." || key == "..") return fmt::format("must not be '{}'", key);
  const bool fits =
      !key.empty() && !key.starts_with("..") && std::all_of(key.begin(), key.end(), [](char c) {
        return IsAlnum(c) || c == '-' || c == '_' || c == '.';
      });
  if (fits) return std::nullopt;
  return "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
         "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
         "'[-._a-zA-Z0-9]+')";
}

}  // namespace paddleop::standalone::apiserver
