#include "kube/client/apply.h"

#include <algorithm>

namespace paddleop::kube {

Result<RawObject> AddFinalizer(const Context& ctx, ClusterClient& client,
                               const GroupVersionResource& resource, const RawObject& object,
                               std::string_view finalizer) {
  if (std::ranges::find(object.finalizers, finalizer) != object.finalizers.end()) return object;
  std::string list;
  for (const std::string& present : object.finalizers) list += JsonString(present) + ",";
  list += JsonString(finalizer);
  return client.Patch(ctx, resource, object.key(),
                      MergePatch(fmt::format(R"({{"metadata":{{"finalizers":[{}]}}}})", list), "",
                                 {.uid = object.uid, .resource_version = object.resource_version}));
}

Result<void> RemoveFinalizer(const Context& ctx, ClusterClient& client,
                             const GroupVersionResource& resource, const RawObject& object,
                             std::string_view finalizer) {
  // The place in the list may have moved since `object` was read; a few looks at the server settle
  // it.
  constexpr int kAttempts = 5;
  RawObject current = object;
  for (int attempt = 1;; ++attempt) {
    const auto found = std::ranges::find(current.finalizers, finalizer);
    if (found == current.finalizers.end() || current.uid != object.uid) return {};
    const std::string path =
        fmt::format("/metadata/finalizers/{}", found - current.finalizers.begin());
    auto patched = client.Patch(ctx, resource, object.key(),
                                JsonPatch()
                                    .Test("/metadata/uid", JsonString(object.uid))
                                    .Test(path, JsonString(finalizer))
                                    .Remove(path)
                                    .Build());
    if (patched || IsNotFound(patched.error())) return {};
    if (!IsConflict(patched.error()) || attempt == kAttempts)
      return std::unexpected(std::move(patched).error());
    auto read = client.Get(ctx, resource, object.key());
    if (!read && IsNotFound(read.error())) return {};
    if (!read) return std::unexpected(std::move(read).error());
    current = *std::move(read);
  }
}

Result<std::optional<RawObject>> PatchStatus(const Context& ctx, ClusterClient& client,
                                             const GroupVersionResource& resource,
                                             const ObjectKey& key, std::string_view status_before,
                                             std::string_view status_after,
                                             const Preconditions& preconditions) {
  ASSIGN_OR_RETURN(const auto difference, MergeDifference(status_before, status_after));
  if (!difference) return std::nullopt;
  auto done = client.Patch(
      ctx, resource, key,
      MergePatch(fmt::format(R"({{"status":{}}})", *difference), "status", preconditions));
  if (!done) return std::unexpected(std::move(done).error().Wrap("write the status"));
  return *std::move(done);
}

}  // namespace paddleop::kube
