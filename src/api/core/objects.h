// The parts of built-in kinds that our controllers read. Reading is tolerant: an absent or odd
// field keeps its default, since the API server has already validated these. Writing goes by
// patches and by JSON built where it is needed, never by putting one of these structs back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/meta/condition.h"
#include "api/meta/object_meta.h"
#include "base/secret.h"

namespace paddleop::api {

struct Namespace {
  static constexpr ResourceType kType{"", "v1", "namespaces", "Namespace", false};
  ObjectMeta metadata;
  std::string phase;
  static Result<Namespace> FromJson(const Json& json);
  bool operator==(const Namespace&) const = default;
};

struct Service {
  static constexpr ResourceType kType{"", "v1", "services", "Service", true};
  ObjectMeta metadata;
  std::string cluster_ip;
  StringMap selector;
  static Result<Service> FromJson(const Json& json);
  bool operator==(const Service&) const = default;
};

struct ConfigMap {
  static constexpr ResourceType kType{"", "v1", "configmaps", "ConfigMap", true};
  ObjectMeta metadata;
  StringMap data;
  static Result<ConfigMap> FromJson(const Json& json);
  bool operator==(const ConfigMap&) const = default;
};

// A core/v1 Secret with its values decoded. (base/secret.h has the type of one secret value.)
struct SecretObject {
  static constexpr ResourceType kType{"", "v1", "secrets", "Secret", true};
  ObjectMeta metadata;
  std::string type;
  std::map<std::string, Secret, std::less<>> data;

  // The value without surrounding white space (people encode with a trailing newline), or empty.
  Secret Value(std::string_view key) const;
  bool Has(std::string_view key) const { return data.find(key) != data.end(); }

  static Result<SecretObject> FromJson(const Json& json);
  bool operator==(const SecretObject&) const = default;
};

struct Node {
  static constexpr ResourceType kType{"", "v1", "nodes", "Node", false};
  ObjectMeta metadata;
  bool ready = false;
  bool unschedulable = false;  // cordoned
  std::string internal_ip;
  static Result<Node> FromJson(const Json& json);
  bool operator==(const Node&) const = default;
};

struct PersistentVolume {
  static constexpr ResourceType kType{"", "v1", "persistentvolumes", "PersistentVolume", false};
  ObjectMeta metadata;
  std::string phase;
  std::string storage_class;
  std::string csi_driver;
  std::string csi_volume_handle;
  StringMap csi_volume_attributes;
  ObjectReference claim;
  static Result<PersistentVolume> FromJson(const Json& json);
  bool operator==(const PersistentVolume&) const = default;
};

struct PersistentVolumeClaim {
  static constexpr ResourceType kType{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim",
                                      true};
  ObjectMeta metadata;
  std::string phase;
  std::string volume_name;
  std::string storage_class;
  static Result<PersistentVolumeClaim> FromJson(const Json& json);
  bool operator==(const PersistentVolumeClaim&) const = default;
};

struct StatefulSet {
  static constexpr ResourceType kType{"apps", "v1", "statefulsets", "StatefulSet", true};
  ObjectMeta metadata;
  std::int32_t replicas = 1;
  std::int32_t ready_replicas = 0;
  std::int32_t current_replicas = 0;
  std::int32_t updated_replicas = 0;
  std::int64_t observed_generation = 0;
  std::string current_revision;
  std::string update_revision;
  static Result<StatefulSet> FromJson(const Json& json);
  bool operator==(const StatefulSet&) const = default;
};

struct Event {
  static constexpr ResourceType kType{"", "v1", "events", "Event", true};
  ObjectMeta metadata;
  ObjectReference involved;
  std::string type;  // Normal or Warning
  std::string reason;
  std::string message;
  std::int32_t count = 0;
  std::optional<Time> first_timestamp;
  std::optional<Time> last_timestamp;
  static Result<Event> FromJson(const Json& json);
  bool operator==(const Event&) const = default;
};

struct Lease {
  static constexpr ResourceType kType{"coordination.k8s.io", "v1", "leases", "Lease", true};
  ObjectMeta metadata;
  std::string holder;
  std::int32_t duration_seconds = 0;
  std::int32_t transitions = 0;
  std::optional<std::chrono::system_clock::time_point> acquire_time;
  std::optional<std::chrono::system_clock::time_point> renew_time;
  static Result<Lease> FromJson(const Json& json);
  bool operator==(const Lease&) const = default;
};

// Volcano's gang.
struct PodGroup {
  static constexpr ResourceType kType{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup",
                                      true};
  ObjectMeta metadata;
  std::int32_t min_member = 0;
  std::string queue;
  std::string phase;
  bool applied_by_user = false;  // kubectl apply has touched it: its numbers are the user's
  static Result<PodGroup> FromJson(const Json& json);
  bool operator==(const PodGroup&) const = default;
};

}  // namespace paddleop::api
