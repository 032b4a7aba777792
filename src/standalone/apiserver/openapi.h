#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace paddleop::standalone::apiserver {

// OpenAPI v3, for `kubectl explain` and for clients that ask what the server can check.

// The index at /openapi/v3.
std::string OpenApiIndex();
// The document of "api/v1" or "apis/apps/v1"; nullopt if there is none. Made anew on each call:
// clients keep it by its hash.
std::optional<std::string> OpenApiDocument(std::string_view group_version);

}  // namespace paddleop::standalone::apiserver
