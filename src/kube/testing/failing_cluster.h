#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "kube/client/cluster_client.h"

namespace paddleop::kube::testing {

// What can happen to a request on its way.
enum class Fault {
  kConflict,      // 409: writes only
  kTooMany,       // 429 that outlasted the client's patience
  kServerError,   // 5xx, nothing done
  kLostReply,     // done, but the answer never came
  kExpired,       // 410: lists with a token, watches
  kDroppedWatch,  // a watch that breaks after its next event
};

// A cluster whose requests fail, by a schedule or by a seed. Thread-safe.
class FailingCluster final : public ClusterClient {
 public:
  explicit FailingCluster(ClusterClient& inner) : inner_(inner) {}

  // The next `times` requests with this verb ("create", ...; "*" for any) fail so.
  void FailNext(const std::string& verb, Fault fault, std::size_t times = 1);
  // Each request fails with this probability, in one of the ways that its verb allows. Zero: no
  // more.
  void FailRandomly(std::uint64_t seed, double probability);

  std::size_t failed() const;

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

 private:
  struct Planned {
    std::string verb;
    Fault fault;
  };

  std::optional<Fault> Draw(std::string_view verb);
  template <class Call>
  auto Through(std::string_view verb, const Call& call) -> decltype(call());

  ClusterClient& inner_;
  mutable Mutex mutex_;
  std::deque<Planned> planned_ GUARDED_BY(mutex_);
  std::mt19937_64 random_ GUARDED_BY(mutex_);
  double probability_ GUARDED_BY(mutex_) = 0;
  std::size_t failed_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paddleop::kube::testing
