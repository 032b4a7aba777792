// The few writes that every controller makes, done so that nobody else's fields are touched.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kube/client/cluster_client.h"

namespace paddleop::kube {

// Adds the finalizer unless the object has it, and returns the object as it is then. kConflict if
// the object has changed since `object` was read.
Result<RawObject> AddFinalizer(const Context& ctx, ClusterClient& client,
                               const GroupVersionResource& resource, const RawObject& object,
                               std::string_view finalizer);

// Removes the finalizer from the object with this UID, wherever in the list it stands by now.
// Success if it is not there, or the object is gone.
Result<void> RemoveFinalizer(const Context& ctx, ClusterClient& client,
                             const GroupVersionResource& resource, const RawObject& object,
                             std::string_view finalizer);

// Writes the difference between two status texts to the status subresource: fields in neither stay
// as they are on the server. The object as it is then, or nothing when there was no difference and
// no request was made.
Result<std::optional<RawObject>> PatchStatus(const Context& ctx, ClusterClient& client,
                                             const GroupVersionResource& resource,
                                             const ObjectKey& key, std::string_view status_before,
                                             std::string_view status_after,
                                             const Preconditions& preconditions = {});

}  // namespace paddleop::kube
