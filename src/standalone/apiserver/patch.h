#pragma once

#include <string_view>

#include "api/meta/json.h"
#include "standalone/apiserver/api_error.h"
#include "standalone/apiserver/schema.h"

namespace paddleop::standalone::apiserver {

// The object with the patch applied. `content_type` is that of the request: JSON patch (RFC 6902),
// merge patch (RFC 7386), or strategic merge patch, which knows from the schema which lists are
// merged by which key. 415 for others and for strategic patches of custom kinds; 422 if an
// operation of a JSON patch fails; 400 if the patch itself is malformed.
Answer<api::Json> ApplyPatch(const Kind& kind, const SchemaNode& schema, const api::Json& object,
                             std::string_view content_type, std::string_view patch);

}  // namespace paddleop::standalone::apiserver
