#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "kube/client/cluster_client.h"

namespace paddleop::kube::testing {

// A cluster in memory, for unit tests: objects in a map, versions, watches, the status subresource,
// finalizers. No admission, no defaults, no schemas, no controllers: when a test needs those it
// needs a real API server.
//
// Thread-safe.
class FakeCluster final : public ClusterClient {
 public:
  FakeCluster();
  ~FakeCluster() override;

  Result<RawObject> Get(const Context& ctx, const GroupVersionResource& resource,
                        const ObjectKey& key) override;
  Result<ListPage> List(const Context& ctx, const GroupVersionResource& resource,
                        const std::string& ns, const ListOptions& options) override;
  Result<RawObject> Create(const Context& ctx, const GroupVersionResource& resource,
                           const std::string& ns, std::string_view json) override;
  Result<RawObject> Patch(const Context& ctx, const GroupVersionResource& resource,
                          const ObjectKey& key, const ObjectPatch& patch) override;
  Result<RawObject> Update(const Context& ctx, const GroupVersionResource& resource,
                           const ObjectKey& key, std::string_view json,
                           std::string_view subresource = "") override;
  Result<RawObject> CreateSubresource(const Context& ctx, const GroupVersionResource& resource,
                                      const ObjectKey& key, std::string_view subresource,
                                      std::string_view json) override;
  Result<void> Delete(const Context& ctx, const GroupVersionResource& resource,
                      const ObjectKey& key, const DeleteOptions& options = {}) override;
  Result<void> Watch(const Context& ctx, const GroupVersionResource& resource,
                     const std::string& ns, const WatchOptions& options,
                     const WatchSink& sink) override;

  // Sets the status as a kubelet or another controller would: a merge patch of the status
  // subresource.
  Result<RawObject> SetStatus(const GroupVersionResource& resource, const ObjectKey& key,
                              std::string_view status_json);
  // Deletes everything whose owners are all gone, and what that leaves behind. Returns how many.
  std::size_t CollectGarbage();
  // Ends all watches as a broken connection does.
  void DropWatches();
  // Forgets the history: watches and continue tokens from before are expired.
  void Compact();
  // Watches with bookmarks get one at the latest version.
  void SendBookmarks();

  // How often the verb ("create", "watch", ...) was asked for; of all resources if none is named.
  std::size_t Requests(std::string_view verb, const GroupVersionResource* resource = nullptr) const;
  // All requests but watches.
  std::size_t Requests() const;
  std::size_t open_watches() const;
  std::size_t size(const GroupVersionResource& resource) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::kube::testing
