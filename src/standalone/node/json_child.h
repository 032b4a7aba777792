#pragma once

#include <nlohmann/json.hpp>

#include "api/meta/json.h"

namespace paddleop::standalone::node {

// A member of an object, or null. Reading is tolerant: the API server has validated the object, so
// what has an odd type is absent.
inline const api::Json& Child(const api::Json& json, const char* key) {
  static const api::Json kNone;
  if (!json.is_object()) return kNone;
  const auto found = json.find(key);
  return found == json.end() ? kNone : *found;
}

}  // namespace paddleop::standalone::node
