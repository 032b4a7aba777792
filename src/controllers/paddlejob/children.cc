#include "controllers/paddlejob/children.h"

#include <algorithm>

#include "controllers/paddlejob/names.h"

namespace paddleop::controllers::paddlejob {
namespace {

kube::InformerOptions Labelled(const api::ResourceType& type, const std::string& ns,
                               std::string_view label) {
  kube::InformerOptions options;
  options.resource = type;
  options.ns = ns;
  options.label_selector = label;
  return options;
}

// Only what decisions read: templates bring labels and annotations of their own by the dozen.
Result<api::Pod> DecodePod(std::string_view json) {
  ASSIGN_OR_RETURN(auto pod, api::ParseAs<api::Pod>(json));
  std::erase_if(pod.metadata.annotations,
                [](const auto& entry) { return !entry.first.starts_with("paddlepaddle.org/"); });
  pod.metadata.labels.clear();
  pod.metadata.finalizers.clear();
  pod.metadata.generate_name.clear();
  std::erase_if(pod.metadata.owner_references,
                [](const api::OwnerReference& owner) { return !owner.controller; });
  for (auto& owner : pod.metadata.owner_references) owner.api_version.clear();
  pod.service_account.clear();
  return pod;
}

// The rest of the environment follows from the job.
Result<api::ConfigMap> DecodeConfigMap(std::string_view json) {
  ASSIGN_OR_RETURN(auto config_map, api::ParseAs<api::ConfigMap>(json));
  std::erase_if(config_map.data, [](const auto& entry) {
    return std::ranges::find(kAddressLists, entry.first) == std::end(kAddressLists);
  });
  std::erase_if(config_map.metadata.annotations,
                [](const auto& entry) { return !entry.first.starts_with("paddlepaddle.org/"); });
  config_map.metadata.labels.clear();
  return config_map;
}

template <class T>
void Watch(kube::Informer<T>& informer,
           const std::function<void(const kube::ObjectKey&)>& changed) {
  informer.AddHandler([changed](const kube::Change<T>& change) {
    const T& object = change.after ? *change.after : *change.before;
    const api::OwnerReference* owner = object.metadata.Controller();
    if (owner != nullptr && owner->kind == api::PaddleJob::kType.kind)
      changed({change.key.ns, owner->name});
  });
}

}  // namespace

Children::Children(const std::string& ns, bool volcano, kube::ClusterClient& client,
                   const Logger& log, MetricsRegistry& metrics, Clock& clock)
    : pods(Labelled(api::Pod::kType, ns, kResTypeLabel), DecodePod, client, log, metrics, clock),
      services(Labelled(api::Service::kType, ns, kResTypeLabel), api::ParseAs<api::Service>, client,
               log, metrics, clock),
      config_maps(Labelled(api::ConfigMap::kType, ns, kResNameLabel), DecodeConfigMap, client, log,
                  metrics, clock) {
  pods.AddIndex(kByOwner, kube::ControllerUid);
  services.AddIndex(kByOwner, kube::ControllerUid);
  if (volcano) {
    // The user's own carry no label of ours.
    pod_groups.emplace(Labelled(api::PodGroup::kType, ns, ""), api::ParseAs<api::PodGroup>, client,
                       log, metrics, clock);
  }
}

void Children::OnChange(const std::function<void(const kube::ObjectKey&)>& changed) {
  Watch(pods, changed);
  Watch(services, changed);
  Watch(config_maps, changed);
  if (pod_groups) {
    pod_groups->AddHandler(
        [changed](const kube::Change<api::PodGroup>& change) { changed(change.key); });
  }
}

void Children::AddTo(kube::Manager& manager) const {
  manager.Add(pods);
  manager.Add(services);
  manager.Add(config_maps);
  if (pod_groups) manager.Add(*pod_groups);
}

void Children::Learn(const api::ResourceType& type, const kube::RawObject& raw) {
  if (type == api::Pod::kType) pods.Learn(raw);
  if (type == api::Service::kType) services.Learn(raw);
  if (type == api::ConfigMap::kType) config_maps.Learn(raw);
  if (type == api::PodGroup::kType && pod_groups) pod_groups->Learn(raw);
}

}  // namespace paddleop::controllers::paddlejob
