#pragma once

#include <string_view>

namespace paddleop::api::internal {

// The text of pod_schema.json, put into the program by the build.
extern const std::string_view kPodSchemaJson;

}  // namespace paddleop::api::internal
