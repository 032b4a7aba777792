#include "fuse/mount_table.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

struct UmountFlags {
  std::string directory;
  bool force = false;
  std::int64_t timeout = 20;
};

Result<void> Unmount(Tool& tool, const UmountFlags& flags) {
  if (flags.timeout < 1)
    return paddleop::Fail(Code::kInvalid, "--timeout is {}; give 1 or more", flags.timeout);
  ASSIGN_OR_RETURN(const std::string directory, fuse::CanonicalDirectory(flags.directory));
  return fuse::Unmount(tool.ctx(), directory,
                       {.force = flags.force, .timeout = std::chrono::seconds(flags.timeout)});
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
  command.AddOption("--timeout", &flags->timeout, "seconds to wait for the kernel");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
