// Short ways to a field of a JSON object: "spec.nodeName".
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "api/meta/json.h"

namespace paddleop::standalone::apiserver {

// Null if a part is missing or no object.
inline const api::Json* ValueAt(const api::Json& json, std::string_view path) {
  const api::Json* at = &json;
  while (true) {
    const auto dot = path.find('.');
    if (!at->is_object()) return nullptr;
    const auto found = at->find(path.substr(0, dot));
    if (found == at->end()) return nullptr;
    at = &*found;
    if (dot == std::string_view::npos) return at;
    path.remove_prefix(dot + 1);
  }
}

// "" if it is missing or no string.
inline std::string TextAt(const api::Json& json, std::string_view path) {
  const api::Json* value = ValueAt(json, path);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

// 0 if it is missing or no integer.
inline std::int64_t NumberAt(const api::Json& json, std::string_view path) {
  const api::Json* value = ValueAt(json, path);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : 0;
}

inline bool FlagAt(const api::Json& json, std::string_view path) {
  const api::Json* value = ValueAt(json, path);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// The array there, or an empty one.
inline const api::Json& ListAt(const api::Json& json, std::string_view path) {
  static const api::Json kNone = api::Json::array();
  const api::Json* value = ValueAt(json, path);
  return value != nullptr && value->is_array() ? *value : kNone;
}

}  // namespace paddleop::standalone::apiserver
