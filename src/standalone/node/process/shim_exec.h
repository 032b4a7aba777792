#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "standalone/node/process/shim_spec.h"

namespace paddleop::standalone::node {

// Becomes the command, with exactly this environment (its PATH finds the program) and default
// signals. Returns only if that failed.
Status ExecCommand(const std::vector<std::string>& argv,
                   const std::vector<std::pair<std::string, std::string>>& env,
                   const std::string& cwd);

// Enters the namespaces and the root of the container with this first process. Its PIDs are for our
// children only.
Result<void> JoinContainer(pid_t pid);

// Runs a command where a container's first process runs, with its environment and working
// directory, and returns its exit code. Standard input and output are ours.
int ExecInContainer(const ExecSpec& spec);

}  // namespace paddleop::standalone::node
