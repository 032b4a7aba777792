#include "standalone/node/process/remount.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <set>

#include "standalone/node/process/container_process.h"
#include "standalone/node/process/pod_root.h"
#include "standalone/node/process/shim.h"
#include "standalone/node/process/shim_exec.h"

namespace paddleop::standalone::node {
namespace {

bool IsAtOrBelow(std::string_view path, std::string_view top) {
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

// What is mounted at the path; "" if nothing is.
std::string DeviceAt(const MountTable& table, std::string_view path) {
  std::string out;
  for (const MountedAt& mount : table) {
    if (mount.path == path) out = mount.device;
  }
  return out;
}

Result<void> RemountHere(std::string_view text, std::vector<MountTree>& trees) {
  ASSIGN_OR_RETURN(const RemountSpec spec, RemountSpecFromText(text));
  for (const BindMount& mount : spec.mounts) {
    ASSIGN_OR_RETURN(MountTree tree, OpenMountTree(mount));
    trees.push_back(std::move(tree));
  }
  return JoinContainer(spec.pid);
}

}  // namespace

std::vector<BindMount> StaleMounts(const std::vector<BindMount>& mounts,
                                   const std::vector<std::string>& volumes,
                                   const MountTable& machine, const MountTable& container,
                                   std::string_view data_dir) {
  std::set<std::string> stale;  // targets
  for (const std::string& volume : volumes) {
    const std::string device = DeviceAt(machine, volume);
    if (device.empty()) continue;  // nothing to give, as long as it is not mounted
    std::vector<std::string> targets;
    for (const BindMount& mount : mounts) {
      if (IsAtOrBelow(mount.source, volume)) targets.push_back(mount.target);
    }
    // By number and not by path: the container's paths may lead through symbolic links. An old
    // file system that somebody still has mounted keeps its device number.
    const auto seen = std::count_if(container.begin(), container.end(), [&](const auto& mount) {
      return mount.device == device && !IsAtOrBelow(mount.path, data_dir);
    });
    if (static_cast<std::size_t>(seen) < targets.size())
      stale.insert(targets.begin(), targets.end());
  }
  std::vector<BindMount> out;
  for (const BindMount& mount : mounts) {
    if (std::any_of(stale.begin(), stale.end(),
                    [&](const std::string& top) { return IsAtOrBelow(mount.target, top); })) {
      out.push_back(mount);
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const BindMount& a, const BindMount& b) {
    return a.target.size() < b.target.size();
  });
  return out;
}

Result<void> Remount(const Context& ctx, const std::string& program, const RemountSpec& spec) {
  ASSIGN_OR_RETURN(const ProgramResult done,
                   RunProgram(ctx, {program, kRemountCommand}, ToText(spec)));
  if (done.exit_code == 0) return {};
  return Fail(Code::kUnavailable, "{}",
              done.output.empty() ? fmt::format("exit code {}", done.exit_code) : done.output);
}

int RemountMain(std::string_view text) {
  std::vector<MountTree> trees;
  if (const auto joined = RemountHere(text, trees); !joined) {
    std::cout << joined.error().message() << std::flush;
    return 1;
  }
  // Only a child is among the container's processes, which its /proc shows.
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto replaced = ReplaceMounts(trees);
    if (!replaced) std::cout << replaced.error().message() << std::flush;
    ::_exit(replaced ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace paddleop::standalone::node
