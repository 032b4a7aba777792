#pragma once

#include <vector>

#include "api/meta/json.h"
#include "standalone/apiserver/api_error.h"

namespace paddleop::standalone::apiserver {

// The rules of built-in kinds that schemas do not say.
void CheckBuiltin(const Kind& kind, const api::Json& object, const api::Json* before,
                  std::vector<Cause>& out);
// The rules of events, in whichever form.
void CheckEvent(const Kind& kind, const api::Json& object, const api::Json* before,
                std::vector<Cause>& out);
// The rules of a pod's spec, also within a template; `path` is where it stands.
void CheckPodSpec(const api::Json& spec, const std::string& path, std::vector<Cause>& out);
// What may change in the spec of a pod that exists.
void CheckPodUpdate(const api::Json& before, const api::Json& after, std::vector<Cause>& out);

}  // namespace paddleop::standalone::apiserver
