#include "controllers/sampleset/children.h"
#include "controllers/sampleset/names.h"

namespace paddleop::controllers::sampleset {
namespace {

kube::InformerOptions Labelled(const api::ResourceType& type, const std::string& ns) {
  kube::InformerOptions options;
  options.resource = type;
  if (type.namespaced) options.ns = ns;
  options.label_selector = kSetUidLabel;
  return options;
}

template <class T>
void Watch(kube::Informer<T>& informer,
           const std::function<void(const kube::ObjectKey&)>& changed) {
  informer.AddHandler([changed](const kube::Change<T>& change) {
    const auto& meta = (change.after ? change.after : change.before)->metadata;
    const std::string ns =
        T::kType.namespaced ? meta.ns : std::string(meta.Label(kSetNamespaceLabel));
    changed({ns, std::string(meta.Label(kSetLabel))});
  });
}

}  // namespace

Children::Children(const std::string& ns, kube::ClusterClient& client, const Logger& log,
                   MetricsRegistry& metrics, Clock& clock)
    : volumes(Labelled(api::PersistentVolume::kType, ns), api::ParseAs<api::PersistentVolume>,
              client, log, metrics, clock),
      claims(Labelled(api::PersistentVolumeClaim::kType, ns),
             api::ParseAs<api::PersistentVolumeClaim>, client, log, metrics, clock),
      services(Labelled(api::Service::kType, ns), api::ParseAs<api::Service>, client, log, metrics,
               clock),
      stateful_sets(Labelled(api::StatefulSet::kType, ns), api::ParseAs<api::StatefulSet>, client,
                    log, metrics, clock) {}

void Children::OnChange(const std::function<void(const kube::ObjectKey&)>& changed) {
  Watch(volumes, changed);
  Watch(claims, changed);
  Watch(services, changed);
  Watch(stateful_sets, changed);
}

void Children::AddTo(kube::Manager& manager) const {
  manager.Add(volumes);
  manager.Add(claims);
  manager.Add(services);
  manager.Add(stateful_sets);
}

void Children::Learn(const api::ResourceType& type, const kube::RawObject& raw) {
  if (type == api::PersistentVolume::kType) volumes.Learn(raw);
  if (type == api::PersistentVolumeClaim::kType) claims.Learn(raw);
  if (type == api::Service::kType) services.Learn(raw);
  if (type == api::StatefulSet::kType) stateful_sets.Learn(raw);
}

}  // namespace paddleop::controllers::sampleset
