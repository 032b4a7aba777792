// Short names for the few shapes that our schemas are made of.
#pragma once

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <string>
#include <utility>

#include "api/meta/json.h"

namespace paddleop::api::internal {

using Property = std::pair<const char*, Json>;

inline Json Text() { return {{"type", "string"}}; }
inline Json Flag() { return {{"type", "boolean"}}; }
inline Json Int32() { return {{"type", "integer"}, {"format", "int32"}}; }
inline Json Int64() { return {{"type", "integer"}, {"format", "int64"}}; }
inline Json Instant() { return {{"type", "string"}, {"format", "date-time"}}; }

inline Json Object(std::initializer_list<Property> properties,
                   std::initializer_list<const char*> required = {}) {
  Json out = {{"type", "object"}};
  for (const auto& [name, schema] : properties) out["properties"][name] = schema;
  for (const char* name : required) out["required"].push_back(name);
  return out;
}

inline Json List(Json items, int most = 0) {
  Json out = {{"type", "array"}, {"items", std::move(items)}};
  if (most > 0) out["maxItems"] = most;
  return out;
}

inline Json Short(Json text, int most) {
  text["maxLength"] = most;
  return text;
}

}  // namespace paddleop::api::internal
