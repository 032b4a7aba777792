#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"

namespace paddleop::runtime::internal {

struct ChildResult {
  int exit_code = -1;  // 128 + signal if one ended it
  std::string output;  // the end of what it wrote to both streams
};

// Runs a program in a process group of its own until it ends. When `ctx` stops or expires the group
// gets SIGTERM and, five seconds later, SIGKILL; then kCancelled or kDeadline. `environment` is
// added to ours ("NAME=value"): the place for secrets, which never go into `argv`. `on_output` sees
// each piece of output as it comes.
Result<ChildResult> RunChild(const Context& ctx, const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment,
                             const std::function<void(std::string_view)>& on_output = {});

}  // namespace paddleop::runtime::internal
