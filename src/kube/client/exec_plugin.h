// Running an exec credential plugin and reading what it prints.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "kube/client/credentials.h"

namespace paddleop::kube {

struct PluginAnswer {
  Credential credential;
  std::optional<std::chrono::system_clock::time_point> expires;
};

// Reads an ExecCredential. kInvalid names what is missing; it never quotes the text.
Result<PluginAnswer> ParseExecCredential(std::string_view json, std::string_view api_version);

// Runs the plugin and reads its answer. kNotFound with the install hint if the program is not
// there, kPermission if it fails (its standard error is ours), kDeadline if it takes too long.
Result<PluginAnswer> RunExecPlugin(const Context& ctx, const ExecPlugin& plugin);

}  // namespace paddleop::kube
