#pragma once

#include "kube/cache/informer.h"
#include "kube/manager/manager.h"
#include "standalone/node/builtin/volume_binding.h"

namespace paddleop::standalone::node {

// Binds claims to volumes, and says of volumes whose claim is gone that they are Released. Nothing
// is provisioned and no data is deleted.
class VolumeBinder {
 public:
  VolumeBinder(kube::ClusterClient& client, const Logger& log, MetricsRegistry& metrics,
               Clock& clock = Clock::System());

  void AddTo(kube::Manager& manager);

 private:
  // One controller for each kind.
  struct Claims final : kube::Reconciler {
    explicit Claims(VolumeBinder& binder) : binder_(binder) {}
    Result<kube::Requeue> Reconcile(const Context& ctx, const kube::ObjectKey& key) override;
    VolumeBinder& binder_;
  };
  struct Volumes final : kube::Reconciler {
    explicit Volumes(VolumeBinder& binder) : binder_(binder) {}
    Result<kube::Requeue> Reconcile(const Context& ctx, const kube::ObjectKey& key) override;
    VolumeBinder& binder_;
  };

  Result<void> Bind(const Context& ctx, const ClaimView& claim, const VolumeView& volume);
  Result<void> PatchVolume(const Context& ctx, const VolumeView& volume, std::string body,
                           std::string subresource);

  kube::ClusterClient& client_;
  kube::Informer<VolumeView> volumes_;
  kube::Informer<ClaimView> claims_;
  kube::EventRecorder events_;
  Claims claim_reconciler_;
  Volumes volume_reconciler_;
  kube::Controller claim_controller_;
  kube::Controller volume_controller_;
};

}  // namespace paddleop::standalone::node
