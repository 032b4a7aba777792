#include "api/meta/json.h"

#include <nlohmann/json.hpp>

#include <cstdint>

namespace paddleop::api {
namespace {

constexpr std::size_t kDeepest = 512;  // deeper input would exhaust the stack of a recursive reader

bool NestsTooDeep(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

// A plain scalar that no YAML 1.1 or 1.2 reader takes for a number, a boolean, null, a date or
// syntax.
bool IsPlainYaml(const std::string& text) {
  if (text.empty()) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!letter(text[0]) && text[0] != '/') return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9') &&
        std::string_view("-_./").find(c) == std::string_view::npos) {
      return false;
    }
  }
  static constexpr std::string_view kReserved[] = {"y",   "n",    "yes",   "no",  "on",
                                                   "off", "true", "false", "null"};
  std::string lower;
  for (const char c : text)
    lower.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  for (const auto word : kReserved) {
    if (lower == word) return false;
  }
  return true;
}

std::string Scalar(const Json& value) {
  if (value.is_string() && IsPlainYaml(value.get_ref<const std::string&>())) {
    return value.get_ref<const std::string&>();
  }
  if (value.is_object()) return "{}";
  if (value.is_array()) return "[]";
  return DumpJson(value);  // a JSON string is a YAML double-quoted string
}

void Emit(const Json& value, std::size_t indent, bool in_sequence, std::string& out) {
  bool first = true;
  const auto pad = [&] {
    // The first line of a sequence item stands behind its dash.
    if (!(first && in_sequence)) out.append(indent, ' ');
    first = false;
  };
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, item] : value.items()) {
      pad();
      out += IsPlainYaml(key) ? key : DumpJson(Json(key));
      out += ':';
      if (item.is_structured() && !item.empty()) {
        out += '\n';
        Emit(item, item.is_array() ? indent : indent + 2, false, out);
      } else {
        out += ' ' + Scalar(item) + '\n';
      }
    }
  } else if (value.is_array() && !value.empty()) {
    for (const auto& item : value) {
      pad();
      out += "- ";
      if (item.is_structured() && !item.empty()) {
        Emit(item, indent + 2, true, out);
      } else {
        out += Scalar(item) + '\n';
      }
    }
  } else {
    pad();
    out += Scalar(value) + '\n';
  }
}

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  if (NestsTooDeep(text))
    return Fail(Code::kInvalid, "JSON: nested deeper than {} levels", kDeepest);
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    return Fail(Code::kInvalid, "JSON: {}", e.what());
  }
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ToYaml(const Json& value) {
  std::string out;
  Emit(value, 0, false, out);
  return out;
}

}  // namespace paddleop::api
