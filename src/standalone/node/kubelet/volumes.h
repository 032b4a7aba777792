#pragma once

#include <map>
#include <string>
#include <utility>

#include "standalone/node/kubelet/environment.h"
#include "standalone/node/kubelet/pod_spec.h"
#include "standalone/node/process/shim_spec.h"

namespace paddleop::standalone::node {

// Where a volume is on this machine.
struct HostVolume {
  std::string path;
  bool read_only = false;
  bool by_process = false;  // mounted at `path` by a process, which may be replaced
};
using HostVolumes = std::map<std::string, HostVolume, std::less<>>;

// Attaches PersistentVolumeClaims. Thread-safe.
class ClaimMounter {
 public:
  virtual ~ClaimMounter() = default;
  // kNotFound or kUnavailable: not bound or not mountable now, try again.
  virtual Result<HostVolume> Mount(const Context& ctx, const PodSpec& pod, const std::string& claim,
                                   bool read_only) = 0;
  // The pod needs none of its claims any more.
  virtual void Release(const Context& ctx, const std::string& pod_uid) = 0;
};

struct VolumesOptions {
  // Bind mounts and tmpfs may be used.
  bool may_mount = false;
  // Where hostPaths of type DirectoryOrCreate are, in a directory for each node: logical nodes of
  // one machine must not share what each of them would make for itself. Empty: the paths
  // themselves.
  std::string logical_root;
};

// The volumes of pods, below each pod's own directory. Thread-safe for different pods.
class Volumes {
 public:
  Volumes(VolumesOptions options, ConfigSource& config, ClaimMounter* claims)
      : options_(std::move(options)), config_(config), claims_(claims) {}

  // Makes all volumes of the pod, or brings them up to date. Errors name the volume.
  Result<HostVolumes> Prepare(const Context& ctx, const PodSpec& pod, const NodeFacts& facts,
                              const std::string& directory);
  // Unmounts them; what is in emptyDirs on disk stays.
  void Unmount(const Context& ctx, const std::string& pod_uid, const std::string& directory);
  // Deletes them too.
  void Remove(const Context& ctx, const std::string& pod_uid, const std::string& directory);

 private:
  Result<HostVolume> Make(const Context& ctx, const PodSpec& pod, const NodeFacts& facts,
                          const VolumeSpec& volume, const std::string& path);
  Result<void> Fill(const Context& ctx, const PodSpec& pod, const NodeFacts& facts,
                    const std::string& kind, const api::Json& source, const std::string& path);

  const VolumesOptions options_;
  ConfigSource& config_;
  ClaimMounter* const claims_;
};

// The bind mounts of one container. kInvalid names a volume that is not there or a subPath that
// leaves it.
Result<std::vector<BindMount>> MountsOf(const ContainerSpec& container, const HostVolumes& volumes);

}  // namespace paddleop::standalone::node
