#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta/json.h"

namespace paddleop::standalone::apiserver {

// What the server has, for clients that ask: the documents at /api, /apis and below. `path` is
// without a trailing slash; nullopt if there is no such document.
std::optional<api::Json> DiscoveryDocument(std::string_view path);
// All of it in one document, for clients that accept it: at /api the core group, at /apis the rest.
api::Json AggregatedDiscovery(bool core);

// "api/v1", "apis/apps/v1": the groups and versions that OpenAPI documents are made for.
std::vector<std::string> GroupVersionPaths();

}  // namespace paddleop::standalone::apiserver
