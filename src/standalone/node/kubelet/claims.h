#pragma once

#include <memory>
#include <string>

#include "kube/client/cluster_client.h"
#include "mounter/mounter.h"
#include "standalone/node/kubelet/volumes.h"

namespace paddleop::standalone::node {

// Our CSI driver's name in PersistentVolumes.
inline constexpr char kSampleFsDriver[] = "csi.samplefs.paddlepaddle.org";

// What a claim leads to: the PersistentVolume's source. Pure.
struct ClaimSource {
  std::string volume;     // name of the PersistentVolume
  std::string host_path;  // a volume of kind hostPath
  std::string options;    // of ours: mount options
  api::ObjectKey secret;  // of ours: where its metadata URL is
};
// kNotSupported names the kind of volume that this node cannot mount.
Result<ClaimSource> ReadClaimSource(std::string_view volume_json);

// "cache-dir=/a:/b,cache-size=1" with `prefix` before each directory: logical nodes of one machine
// have caches of their own.
std::string WithCachePrefix(std::string_view options, std::string_view prefix);

// Attaches claims of volumes with our CSI driver, by mount processes on this machine, and of
// hostPath volumes. Thread-safe.
class Claims final : public ClaimMounter {
 public:
  // `logical_root` as in VolumesOptions.
  Claims(kube::ClusterClient& client, mounter::Mounter& mounter, std::string logical_root)
      : client_(client), mounter_(mounter), logical_root_(std::move(logical_root)) {}

  Result<HostVolume> Mount(const Context& ctx, const PodSpec& pod, const std::string& claim,
                           bool read_only) override;
  void Release(const Context& ctx, const std::string& pod_uid) override;

 private:
  kube::ClusterClient& client_;
  mounter::Mounter& mounter_;
  const std::string logical_root_;
};

}  // namespace paddleop::standalone::node
