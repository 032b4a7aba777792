// The sub-commands of paddle-operator, one file each. A command adds its flags to `app` and, when
// the user chose it, puts what is to run into `run`; main() calls that and exits with its result.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace paddleop::cmd {

// Exit codes of both programs: 0 done, 1 failed, 2 wrong usage, 3 partly done.
using Run = std::function<int()>;

// apply, get, describe, logs and delete.
void AddClient(CLI::App& app, Run& run);
void AddCrds(CLI::App& app, Run& run);
void AddManager(CLI::App& app, Run& run);
void AddStandalone(CLI::App& app, Run& run);
void AddNode(CLI::App& app, Run& run);

}  // namespace paddleop::cmd
