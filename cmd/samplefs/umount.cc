#include <signal.h>

#include <cerrno>

#include "base/clock.h"
#include "fuse/control.h"
#include "fuse/mount_table.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

struct UmountFlags {
  std::string directory;
  bool force = false;
  std::int64_t timeout = 60;
};

// True once the process has ended.
bool WaitForEnd(const Context& ctx, pid_t process) {
  while (::kill(process, 0) == 0 || errno == EPERM) {
    if (!Clock::System().SleepFor(ctx, std::chrono::milliseconds(10))) return false;
  }
  return true;
}

Result<void> Unmount(Tool& tool, const UmountFlags& flags) {
  if (flags.timeout < 1)
    return paddleop::Fail(Code::kInvalid, "--timeout is {}; give 1 or more", flags.timeout);
  const auto timeout = std::chrono::seconds(flags.timeout);
  ASSIGN_OR_RETURN(const std::string directory, fuse::CanonicalDirectory(flags.directory));
  const auto process = fuse::FindMountProcess(directory);
  const Context ctx = tool.ctx().WithTimeout(timeout);
  RETURN_IF_ERROR(fuse::Unmount(ctx, directory, {.force = flags.force, .timeout = timeout}));
  if (!process) {
    const Code code = process.error().code();
    // Otherwise it lives where we cannot see it, and may still be committing.
    if (code != Code::kNotFound && code != Code::kUnavailable)
      tool.log().Warn(ctx, "not waited for: " + process.error().message());
    return {};
  }
  // The process commits what was written; when we return, it is done. Forced, it has to end
  // although files are open.
  if (flags.force) ::kill(*process, SIGTERM);
  if (WaitForEnd(ctx, *process)) return {};
  if (!flags.force) {
    return paddleop::Fail(Code::kDeadline,
                          "{} is unmounted, but its process {} has not ended within {} s",
                          directory, *process, flags.timeout);
  }
  ::kill(*process, SIGKILL);
  return {};
}

}  // namespace

void AddUmount(Command& program, Tool& tool) {
  auto flags = std::make_shared<UmountFlags>();
  Command command = program.AddCommand("umount", "unmount a volume", [flags, &tool] {
    auto done = Unmount(tool, *flags);
    return done ? kExitDone : tool.Fail(done.error());
  });
  command.AddArgument("DIR", &flags->directory, "mount point");
  command.AddFlag("-f,--force", &flags->force,
                  "also when files are open or the mount process hangs");
  command.AddOption("--timeout", &flags->timeout,
                    "seconds to wait for the kernel and the mount process");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
