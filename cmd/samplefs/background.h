// Running a command in the background: the program starts itself again, waits until that one is
// ready or has failed, and ends with its exit code.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/posix.h"
#include "base/status.h"

namespace paddleop::cmd {

// True in the process that was started to stay: the line was given by StartInBackground.
bool IsBackgroundProcess();

// Starts the program again with the same command line. Returns 0 once it said that it is ready, or
// its exit code if it ended before; kUnavailable if a signal ended it. A stop ends it, too.
Result<int> StartInBackground(const Context& ctx, const std::vector<std::string>& arguments);

// In the background process, while errors still reach who started it: where the log will go.
Result<UniqueFd> OpenLog(const std::string& log_file);
// Lets the starter go, and sends standard error to the log.
Result<void> SayReady(const UniqueFd& log);

// The command line of this process.
Result<std::vector<std::string>> OwnArguments();

}  // namespace paddleop::cmd
