// The mounts of a pod's running containers.
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "standalone/node/kubelet/pod_runner.h"
#include "standalone/node/process/remount.h"

namespace paddleop::standalone::node {
namespace {

constexpr std::chrono::seconds kRemountTimeout{30};
constexpr std::chrono::seconds kRemountRetry{2};

}  // namespace

bool PodRunner::MountsAlive(ContainerRunner& container) {
  for (const auto& [name, volume] : volumes_) {
    struct stat st{};
    if (!volume.by_process || ::stat(volume.path.c_str(), &st) == 0 || errno != ENOTCONN) continue;
    container.SetWaiting("ContainerCreating",
                         fmt::format("volume \"{}\" is being mounted again", name));
    LookAgain(kRemountRetry);
    return false;
  }
  return true;
}

void PodRunner::RefreshMounts(const Context& ctx, const PodSpec& pod) {
  std::vector<std::string> paths;
  for (const auto& [name, volume] : volumes_) {
    if (volume.by_process) paths.push_back(volume.path);
  }
  if (paths.empty()) return;
  for (std::size_t i = 0; i < init_.size(); ++i)
    RefreshMounts(ctx, pod.init_containers[i], *init_[i], paths);
  for (std::size_t i = 0; i < containers_.size(); ++i)
    RefreshMounts(ctx, pod.containers[i], *containers_[i], paths);
}

void PodRunner::RefreshMounts(const Context& ctx, const ContainerSpec& spec,
                              const ContainerRunner& container,
                              const std::vector<std::string>& paths) {
  if (!container.running() || !container.process()) return;
  const pid_t first = container.process()->first;
  const auto mounts = MountsOf(spec, volumes_);
  const auto machine = ReadMountTable(::getpid());
  const auto inside = ReadMountTable(first);
  if (!mounts || !machine || !inside) return;  // it ends, or never had them
  auto stale = StaleMounts(*mounts, paths, *machine, *inside, house_.data_dir);
  if (stale.empty()) return;
  std::set<std::string> names;
  for (const VolumeMount& mount : spec.mounts) {
    const auto volume = volumes_.find(mount.volume);
    if (volume != volumes_.end() && volume->second.by_process) names.insert(mount.volume);
  }
  const std::string which = fmt::format("\"{}\"", fmt::join(names, "\", \""));
  const auto done = Remount(ctx.WithTimeout(kRemountTimeout), house_.program,
                            {.pid = first, .mounts = std::move(stale)});
  if (done) {
    return Tell(kube::EventType::kWarning, "VolumeRemounted",
                fmt::format("The mount process of volume {} had ended: container {} has the volume "
                            "again; files that were open are lost to it",
                            which, spec.name));
  }
  if (!container.process()->shim.Alive()) return;
  Tell(kube::EventType::kWarning, "FailedMount",
       fmt::format("The mount process of volume {} had ended, and container {} cannot be given the "
                   "volume again: {}",
                   which, spec.name, done.error().message()));
  LookAgain(kRemountRetry);
}

}  // namespace paddleop::standalone::node
