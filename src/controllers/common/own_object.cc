#include "controllers/common/own_object.h"

#include "kube/client/apply.h"

namespace paddleop::controllers {

void RecordNote(kube::EventRecorder& events, const api::ResourceType& type,
                const api::ObjectMeta& object, const ChangeNote& note) {
  events.Record(kube::ReferenceTo(type, object.Key(), object.uid),
                note.warning ? kube::EventType::kWarning : kube::EventType::kNormal, note.reason,
                note.message);
}

Result<void> DropFinalizer(const Context& ctx, kube::ClusterClient& client,
                           const api::ResourceType& type, const api::ObjectMeta& object,
                           std::string_view finalizer) {
  auto raw = client.Get(ctx, type, object.Key());
  if (!raw && IsNotFound(raw.error())) return {};
  if (!raw) return std::unexpected(std::move(raw).error());
  if (raw->uid != object.uid) return {};
  return kube::RemoveFinalizer(ctx, client, type, *raw, finalizer);
}

}  // namespace paddleop::controllers
