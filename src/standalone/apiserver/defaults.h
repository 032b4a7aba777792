#pragma once

#include "api/meta/json.h"
#include "standalone/apiserver/kinds.h"

namespace paddleop::standalone::apiserver {

// Fills in what the API server fills in when an object of a built-in kind leaves it out: what
// clients, `kubectl describe` and a node count on being there. `created`: the object is new, so its
// first status is set too. Does nothing to custom kinds: their schema has their defaults.
void SetDefaults(const Kind& kind, api::Json& object, bool created);

}  // namespace paddleop::standalone::apiserver
