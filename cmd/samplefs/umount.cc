#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/clock.h"
#include "base/posix.h"
#include "base/process_identity.h"
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

// True once the process has ended, whether or not somebody has taken note of it.
bool WaitForEnd(const Context& ctx, const ProcessIdentity& process) {
  while (process.Alive()) {
    if (!Clock::System().SleepFor(ctx, std::chrono::milliseconds(10))) return false;
  }
  return true;
}

// The process that serves what is mounted there, as far as we can tell.
std::optional<pid_t> ServerOf(const std::string& directory) {
  const auto process = fuse::FindMountProcess(directory);
  return process ? std::optional<pid_t>(*process) : std::nullopt;
}

// Where the device is mounted, as far as we see; empty if nowhere.
std::string MountedAt(unsigned minor) {
  const auto text = ReadFile("/proc/self/mountinfo");
  if (!text) return "";
  const auto mounts = fuse::ParseMountInfo(*text);
  if (!mounts) return "";
  for (const fuse::MountEntry& mount : *mounts) {
    if (mount.major == 0 && mount.minor == minor) return mount.mount_point;
  }
  return "";
}

// A process that was killed leaves its socket behind. Whoever has the device number next is in the
// mount table before it listens there.
void RemoveDeadSocket(unsigned minor) {
  if (!MountedAt(minor).empty()) return;
  const std::string path = fuse::ControlSocketPath(minor);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) return;
  path.copy(address.sun_path, path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED) {
    ::unlink(path.c_str());
  }
}

Result<void> Unmount(Tool& tool, const UmountFlags& flags) {
  if (flags.timeout < 1)
    return paddleop::Fail(Code::kInvalid, "--timeout is {}; give 1 or more", flags.timeout);
  const auto timeout = std::chrono::seconds(flags.timeout);
  ASSIGN_OR_RETURN(const std::string directory, fuse::CanonicalDirectory(flags.directory));
  const auto pid = fuse::FindMountProcess(directory);
  const ProcessIdentity process = pid ? ProcessIdentity::Of(*pid) : ProcessIdentity{};
  ASSIGN_OR_RETURN(const auto mount, fuse::FindMount(directory));
  const Context ctx = tool.ctx().WithTimeout(timeout);
  RETURN_IF_ERROR(fuse::Unmount(ctx, directory, {.force = flags.force, .timeout = timeout}));
  if (!pid) {
    const Code code = pid.error().code();
    // Otherwise it lives where we cannot see it, and may still be committing.
    if (code != Code::kNotFound && code != Code::kUnavailable)
      tool.log().Warn(ctx, "not waited for: " + pid.error().message());
    if (mount) RemoveDeadSocket(mount->minor);
    return {};
  }
  // The process commits what was written; when we return, it is done. Forced, it has to end
  // although files are open.
  if (flags.force && process.Alive()) ::kill(process.pid, SIGTERM);
  if (!flags.force && mount) {
    // Another mount may have the number of the device already, if ours is gone.
    const std::string elsewhere = MountedAt(mount->minor);
    const auto server = elsewhere.empty() ? std::nullopt : ServerOf(elsewhere);
    if (server == process.pid) {
      tool.log().Warn(ctx, "still mounted elsewhere, so its process goes on",
                      {{"path", elsewhere}, {"pid", process.pid}});
      return {};
    }
  }
  if (WaitForEnd(ctx, process)) return {};
  if (!flags.force) {
    return paddleop::Fail(Code::kDeadline,
                          "{} is unmounted, but its process {} has not ended within {} s",
                          directory, process.pid, flags.timeout);
  }
  if (process.Alive()) ::kill(process.pid, SIGKILL);
  if (WaitForEnd(tool.ctx().WithTimeout(std::chrono::seconds(1)), process) && mount)
    RemoveDeadSocket(mount->minor);
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
