#include <unistd.h>

#include "base/posix.h"
#include "fuse/control.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

int RunAccessLog(Tool& tool, const std::string& directory) {
  auto done = fuse::StreamMount(tool.ctx(), directory, "/accesslog", [](std::string_view lines) {
    return WriteAll(STDOUT_FILENO, lines);
  });
  // Whoever interrupts us has seen enough.
  if (!done && !tool.ctx().Stopped()) return tool.Fail(done.error());
  return kExitDone;
}

}  // namespace

void AddAccessLog(Command& program, Tool& tool) {
  auto directory = std::make_shared<std::string>();
  Command command =
      program.AddCommand("access-log", "show the requests of a mount as they come",
                         [directory, &tool] { return RunAccessLog(tool, *directory); });
  command.AddArgument("DIR", directory.get(), "mount point");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
