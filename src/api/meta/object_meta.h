#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta/json.h"
#include "api/meta/time.h"
#include "base/status.h"

namespace paddleop::api {

using StringMap = std::map<std::string, std::string, std::less<>>;

// What identifies an object of one kind. `ns` is empty for cluster-scoped kinds.
struct ObjectKey {
  std::string ns;
  std::string name;

  auto operator<=>(const ObjectKey&) const = default;
  // "namespace/name", or "name" without a namespace: for logs, queues and metrics.
  std::string ToString() const;
};

// Where a kind lives on an API server.
struct ResourceType {
  std::string_view group;  // empty for core
  std::string_view version;
  std::string_view plural;
  std::string_view kind;
  bool namespaced = true;

  // "v1" or "batch.paddlepaddle.org/v1"
  std::string ApiVersion() const;
  bool operator==(const ResourceType&) const = default;
};

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  bool block_owner_deletion = false;

  bool operator==(const OwnerReference&) const = default;
};

// The parts of metav1.ObjectMeta that anybody here reads. managedFields and kubectl's copy of the
// applied object are dropped: they are larger than all the rest.
struct ObjectMeta {
  std::string name;
  std::string generate_name;
  std::string ns;
  std::string uid;
  std::string resource_version;
  std::int64_t generation = 0;
  std::optional<Time> creation_timestamp;
  std::optional<Time> deletion_timestamp;
  StringMap labels;
  StringMap annotations;
  std::vector<OwnerReference> owner_references;
  std::vector<std::string> finalizers;

  ObjectKey Key() const { return {ns, name}; }
  bool Deleting() const { return deletion_timestamp.has_value(); }
  bool HasFinalizer(std::string_view finalizer) const;
  // The owner with controller: true, or null.
  const OwnerReference* Controller() const;
  // The value, or "" where the key is absent.
  std::string_view Label(std::string_view key) const;
  std::string_view Annotation(std::string_view key) const;

  bool operator==(const ObjectMeta&) const = default;
};

// kInvalid names the field that has a wrong type.
Result<ObjectMeta> ObjectMetaFromJson(const Json& json);
Json ToJson(const ObjectMeta& meta);
Json ToJson(const OwnerReference& owner);

// A reference to the object as its controller.
OwnerReference ControllerOf(const ResourceType& type, const ObjectMeta& owner);

// core/v1 ObjectReference, LocalObjectReference and SecretReference.
struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string ns;
  std::string name;
  std::string uid;

  bool operator==(const ObjectReference&) const = default;
};

}  // namespace paddleop::api

template <>
struct std::hash<paddleop::api::ObjectKey> {
  std::size_t operator()(const paddleop::api::ObjectKey& key) const noexcept {
    const std::hash<std::string_view> text;
    return text(key.ns) * 31 + text(key.name);
  }
};
