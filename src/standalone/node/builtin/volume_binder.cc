#include "standalone/node/builtin/volume_binder.h"

#include <nlohmann/json.hpp>

namespace paddleop::standalone::node {
namespace {

using api::Json;
using kube::ObjectKey;
using kube::Requeue;

}  // namespace

VolumeBinder::VolumeBinder(kube::ClusterClient& client, const Logger& log, MetricsRegistry& metrics,
                           Clock& clock)
    : client_(client),
      volumes_({.resource = kube::kPersistentVolumes}, VolumeView::Parse, client, log, metrics,
               clock),
      claims_({.resource = kube::kPersistentVolumeClaims}, ClaimView::Parse, client, log, metrics,
              clock),
      events_({.component = "persistentvolume-controller", .instance = "node"}, client, log,
              metrics, clock),
      claim_reconciler_(*this),
      volume_reconciler_(*this),
      claim_controller_({.name = "node-claims", .workers = 1}, claim_reconciler_, log, metrics,
                        clock),
      volume_controller_({.name = "node-volumes", .workers = 1}, volume_reconciler_, log, metrics,
                         clock) {
  volumes_.AddHandler([this](const kube::Change<VolumeView>& change) {
    volume_controller_.Add(change.key);
    if (!change.after) return;
    for (const auto& claim : claims_.List()) {
      if (claim->claim.phase != "Bound") claim_controller_.Add(claim->claim.metadata.Key());
    }
  });
  claims_.AddHandler([this](const kube::Change<ClaimView>& change) {
    claim_controller_.Add(change.key);
    if (change.after) return;
    for (const auto& volume : volumes_.List()) {
      if (volume->volume.claim.name == change.key.name)
        volume_controller_.Add(volume->volume.metadata.Key());
    }
  });
}

void VolumeBinder::AddTo(kube::Manager& manager) {
  manager.Add(volumes_);
  manager.Add(claims_);
  manager.Add(events_);
  manager.Add(claim_controller_);
  manager.Add(volume_controller_);
}

Result<Requeue> VolumeBinder::Claims::Reconcile(const Context& ctx, const ObjectKey& key) {
  const auto claim = binder_.claims_.Get(key);
  if (!claim || claim->claim.phase == "Bound" || claim->claim.metadata.Deleting()) return Requeue{};
  std::string why_not;
  const VolumeView* volume = ChooseVolume(*claim, binder_.volumes_.List(), &why_not);
  if (volume != nullptr) {
    RETURN_IF_ERROR(binder_.Bind(ctx, *claim, *volume));
    return Requeue{};
  }
  if (claim->claim.phase.empty()) {
    auto pending =
        binder_.client_.Patch(ctx, kube::kPersistentVolumeClaims, key,
                              kube::MergePatch(R"({"status":{"phase":"Pending"}})", "status"));
    if (!pending && !IsNotFound(pending.error()))
      return std::unexpected(std::move(pending).error());
    if (pending) binder_.claims_.Learn(*pending);
  }
  binder_.events_.Record(
      kube::ReferenceTo(kube::kPersistentVolumeClaims, key, claim->claim.metadata.uid),
      kube::EventType::kNormal, "FailedBinding", why_not);
  return Requeue{};
}

Result<void> VolumeBinder::PatchVolume(const Context& ctx, const VolumeView& volume,
                                       std::string body, std::string subresource) {
  auto done = client_.Patch(ctx, kube::kPersistentVolumes, volume.volume.metadata.Key(),
                            kube::MergePatch(std::move(body), std::move(subresource)));
  if (!done) return std::unexpected(std::move(done).error());
  volumes_.Learn(*done);
  return {};
}

Result<void> VolumeBinder::Bind(const Context& ctx, const ClaimView& claim,
                                const VolumeView& volume) {
  const api::ObjectMeta& meta = claim.claim.metadata;
  // The volume first: once it names the claim nobody else can have it.
  const Json ref = {{"kind", "PersistentVolumeClaim"},
                    {"apiVersion", "v1"},
                    {"namespace", meta.ns},
                    {"name", meta.name},
                    {"uid", meta.uid}};
  auto taken = client_.Patch(
      ctx, kube::kPersistentVolumes, volume.volume.metadata.Key(),
      kube::MergePatch(api::DumpJson({{"spec", {{"claimRef", ref}}}}), "",
                       {.resource_version = volume.volume.metadata.resource_version}));
  if (!taken) return std::unexpected(std::move(taken).error());
  volumes_.Learn(*taken);
  RETURN_IF_ERROR(PatchVolume(ctx, volume, R"({"status":{"phase":"Bound"}})", "status"));
  const Json spec = {{"metadata", {{"annotations", {{"pv.kubernetes.io/bind-completed", "yes"}}}}},
                     {"spec", {{"volumeName", volume.volume.metadata.name}}}};
  auto named = client_.Patch(ctx, kube::kPersistentVolumeClaims, meta.Key(),
                             kube::MergePatch(api::DumpJson(spec), "", {.uid = meta.uid}));
  if (!named) return std::unexpected(std::move(named).error());
  Json status = {{"phase", "Bound"}, {"accessModes", volume.access_modes}};
  if (!volume.capacity.empty()) status["capacity"] = {{"storage", volume.capacity}};
  auto bound = client_.Patch(ctx, kube::kPersistentVolumeClaims, meta.Key(),
                             kube::MergePatch(api::DumpJson({{"status", status}}), "status"));
  if (!bound) return std::unexpected(std::move(bound).error());
  claims_.Learn(*bound);
  return {};
}

Result<Requeue> VolumeBinder::Volumes::Reconcile(const Context& ctx, const ObjectKey& key) {
  const auto view = binder_.volumes_.Get(key);
  if (!view || view->volume.metadata.Deleting()) return Requeue{};
  const api::ObjectReference& ref = view->volume.claim;
  std::string phase = "Available";
  if (!ref.uid.empty()) {
    const auto claim = binder_.claims_.Get({ref.ns, ref.name});
    const bool there = claim && claim->claim.metadata.uid == ref.uid;
    phase = there ? "Bound" : "Released";
  }
  if (view->volume.phase == phase) return Requeue{};
  RETURN_IF_ERROR(binder_.PatchVolume(
      ctx, *view, fmt::format(R"({{"status":{{"phase":"{}"}}}})", phase), "status"));
  return Requeue{};
}

}  // namespace paddleop::standalone::node
