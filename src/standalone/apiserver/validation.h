#pragma once

#include <vector>

#include "api/meta/json.h"
#include "standalone/apiserver/api_error.h"

namespace paddleop::standalone::apiserver {

// What is wrong with an object beyond its schema, in the words of the API server: metadata, the
// rules of our kinds (api/batch/rules.h), and the rules of built-in kinds that people run into.
// `before` is null for a new object; otherwise what may not change is checked too.
std::vector<Cause> ValidateObject(const Kind& kind, const api::Json& object,
                                  const api::Json* before);

}  // namespace paddleop::standalone::apiserver
