// What names an object in a cluster: a resource and a namespace/name.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace paddleop::kube {

// A resource as the API addresses it. The names are literals, or outlive every use of the value.
struct GroupVersionResource {
  std::string_view group;  // empty: the core group
  std::string_view version;
  std::string_view resource;  // plural, lower case: "pods"
  std::string_view kind;      // "Pod"
  bool namespaced = true;

  // "v1", "apps/v1": what stands in an object's apiVersion.
  std::string ApiVersion() const;
  // "pods", "paddlejobs.batch.paddlepaddle.org": for messages and metric labels.
  std::string Name() const;
  bool operator==(const GroupVersionResource&) const = default;
};

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

// Which object of a resource. `ns` is empty for cluster-scoped ones.
struct ObjectKey {
  std::string ns;
  std::string name;

  // "namespace/name", or "name" without a namespace.
  std::string ToString() const;
  auto operator<=>(const ObjectKey&) const = default;
};

}  // namespace paddleop::kube

template <>
struct std::hash<paddleop::kube::ObjectKey> {
  std::size_t operator()(const paddleop::kube::ObjectKey& key) const noexcept {
    const std::size_t a = std::hash<std::string>{}(key.ns);
    return a * 0x9e3779b97f4a7c15ULL ^ std::hash<std::string>{}(key.name);
  }
};
