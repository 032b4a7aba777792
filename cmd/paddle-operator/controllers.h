#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/status.h"

namespace paddleop::cmd {

// Runs every controller against the cluster of the kubeconfig until the context stops: what the
// manager does, inside another program. `source_dirs`: where sources file:///... may lie.
Result<void> RunAllControllers(const Context& ctx, const std::string& kubeconfig,
                               const std::vector<std::string>& source_dirs, const Logger& log,
                               MetricsRegistry& metrics);

}  // namespace paddleop::cmd
