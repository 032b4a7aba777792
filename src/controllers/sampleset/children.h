#pragma once

#include <functional>
#include <string>

#include "api/core/objects.h"
#include "controllers/common/caches.h"
#include "kube/cache/informer.h"
#include "kube/manager/manager.h"

namespace paddleop::controllers::sampleset {

// The informers of what sets own, by our label. Secrets are not among them: who may watch them may
// read all of them, so they are read by name.
//
// Handlers are added before the manager runs; after that everything is thread-safe.
class Children {
 public:
  Children(const std::string& ns, kube::ClusterClient& client, const Logger& log,
           MetricsRegistry& metrics, Clock& clock);

  kube::Informer<api::PersistentVolume> volumes;
  kube::Informer<api::PersistentVolumeClaim> claims;
  kube::Informer<api::Service> services;
  kube::Informer<api::StatefulSet> stateful_sets;

  // Calls `changed` with the key of the set that an object belongs to, whenever one changes.
  void OnChange(const std::function<void(const kube::ObjectKey& set)>& changed);
  void AddTo(kube::Manager& manager) const;
  // Takes the server's answer to a write into the cache it belongs to.
  void Learn(const api::ResourceType& type, const kube::RawObject& raw);
};

}  // namespace paddleop::controllers::sampleset
