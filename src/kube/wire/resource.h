// What names an object in a cluster: a resource and a namespace/name.
#pragma once

#include <string>

#include "api/meta/object_meta.h"

namespace paddleop::kube {

using GroupVersionResource = api::ResourceType;
using ObjectKey = api::ObjectKey;

// "pods", "paddlejobs.batch.paddlepaddle.org": for messages and metric labels.
std::string ResourceName(const GroupVersionResource& resource);

inline constexpr GroupVersionResource kPods{"", "v1", "pods", "Pod"};
inline constexpr GroupVersionResource kServices{"", "v1", "services", "Service"};
inline constexpr GroupVersionResource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
inline constexpr GroupVersionResource kSecrets{"", "v1", "secrets", "Secret"};
inline constexpr GroupVersionResource kEvents{"", "v1", "events", "Event"};
inline constexpr GroupVersionResource kNodes{"", "v1", "nodes", "Node", false};
inline constexpr GroupVersionResource kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline constexpr GroupVersionResource kPersistentVolumes{"", "v1", "persistentvolumes",
                                                         "PersistentVolume", false};
inline constexpr GroupVersionResource kPersistentVolumeClaims{"", "v1", "persistentvolumeclaims",
                                                              "PersistentVolumeClaim"};
inline constexpr GroupVersionResource kStatefulSets{"apps", "v1", "statefulsets", "StatefulSet"};
inline constexpr GroupVersionResource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline constexpr GroupVersionResource kCustomResourceDefinitions{
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false};

}  // namespace paddleop::kube
