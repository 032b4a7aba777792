#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/posix.h"
#include "standalone/node/process/process_files.h"
#include "standalone/node/process/shim_spec.h"

namespace paddleop::standalone::node {

// Starts a container's shim (`program` is one whose main() calls ShimMain) and waits until its
// command runs. kInvalid if the command could not be started: the message is for the user, and the
// attempt's directory has an exit.json that says so too.
Result<ProcessState> StartContainer(const Context& ctx, const std::string& program,
                                    const ShimSpec& spec);

// Asks the container's command to end, or ends it with everything it started.
void TerminateContainer(const ProcessState& state);
void KillContainer(const ProcessState& state);

// A program of this machine (not a container), run to its end.
struct ProgramResult {
  int exit_code = -1;
  std::string output;  // standard output and error
};
// kDeadline and kCancelled kill it. Output past 1 MiB is dropped.
Result<ProgramResult> RunProgram(const Context& ctx, const std::vector<std::string>& argv,
                                 std::string_view input = {});

// A companion of a container: its standard streams are the given descriptors.
Result<pid_t> SpawnExec(const std::string& program, const ExecSpec& spec, int in, int out, int err);

}  // namespace paddleop::standalone::node
