// What every controller does to the object that it is about.
#pragma once

#include <string_view>

#include "controllers/common/changes.h"
#include "kube/manager/events.h"

namespace paddleop::controllers {

void RecordNote(kube::EventRecorder& events, const api::ResourceType& type,
                const api::ObjectMeta& object, const ChangeNote& note);

// Success if the object is gone, or another one has its name.
Result<void> DropFinalizer(const Context& ctx, kube::ClusterClient& client,
                           const api::ResourceType& type, const api::ObjectMeta& object,
                           std::string_view finalizer);

}  // namespace paddleop::controllers
