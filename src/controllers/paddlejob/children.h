#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/core/objects.h"
#include "api/core/pod.h"
#include "controllers/common/caches.h"
#include "kube/cache/informer.h"
#include "kube/manager/manager.h"

namespace paddleop::controllers::paddlejob {

// The informers of what jobs own. Pods, Services and ConfigMaps are watched by our labels, so that
// a large cluster's other objects cost nothing.
//
// Handlers are added before the manager runs; after that everything is thread-safe.
class Children {
 public:
  Children(const std::string& ns, bool volcano, kube::ClusterClient& client, const Logger& log,
           MetricsRegistry& metrics, Clock& clock);

  kube::Informer<api::Pod> pods;
  kube::Informer<api::Service> services;
  kube::Informer<api::ConfigMap> config_maps;
  std::optional<kube::Informer<api::PodGroup>> pod_groups;  // only with Volcano

  static constexpr char kByOwner[] = "owner";

  // Calls `changed` with the key of the job that an object belongs to, whenever one changes.
  void OnChange(const std::function<void(const kube::ObjectKey& job)>& changed);
  void AddTo(kube::Manager& manager) const;
  // Takes the server's answer to a write into the cache it belongs to.
  void Learn(const api::ResourceType& type, const kube::RawObject& raw);
};

}  // namespace paddleop::controllers::paddlejob
