#include "api/core/objects.h"

#include <algorithm>

#include "api/internal/meta_fields.h"
#include "base/bytes.h"
#include "base/crypto.h"

namespace paddleop::api {
namespace {

using internal::Child;

// Reads one optional field of a wanted type; anything else keeps the default.
template <class T>
void Take(const Json& object, const char* key, T& out) {
  const Json& value = Child(object, key);
  if constexpr (std::is_same_v<T, std::string>) {
    if (value.is_string()) out = value.get<std::string>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (value.is_boolean()) out = value.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    if (value.is_number_integer()) out = value.get<T>();
  } else if constexpr (std::is_same_v<T, std::optional<Time>>) {
    if (!value.is_string()) return;
    if (const auto time = ParseTime(value.get_ref<const std::string&>())) out = *time;
  } else if constexpr (std::is_same_v<T, StringMap>) {
    if (!value.is_object()) return;
    for (const auto& [name, item] : value.items()) {
      if (item.is_string()) out.emplace(name, item.template get<std::string>());
    }
  } else {
    static_assert(std::is_same_v<T, std::optional<std::chrono::system_clock::time_point>>);
    if (!value.is_string()) return;
    if (const auto time = ParseMicroTime(value.get_ref<const std::string&>())) out = *time;
  }
}

ObjectReference Reference(const Json& json) {
  ObjectReference out;
  Take(json, "apiVersion", out.api_version);
  Take(json, "kind", out.kind);
  Take(json, "namespace", out.ns);
  Take(json, "name", out.name);
  Take(json, "uid", out.uid);
  return out;
}

template <class T>
Result<T> WithMeta(const Json& json) {
  T out;
  ASSIGN_OR_RETURN(out.metadata, ObjectMetaFromJson(Child(json, "metadata")));
  return out;
}

}  // namespace

Result<Namespace> Namespace::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<Namespace>(json));
  Take(Child(json, "status"), "phase", out.phase);
  return out;
}

Result<Service> Service::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<Service>(json));
  const Json& spec = Child(json, "spec");
  Take(spec, "clusterIP", out.cluster_ip);
  Take(spec, "selector", out.selector);
  return out;
}

Result<ConfigMap> ConfigMap::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<ConfigMap>(json));
  Take(json, "data", out.data);
  return out;
}

Result<SecretObject> SecretObject::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<SecretObject>(json));
  Take(json, "type", out.type);
  StringMap encoded;
  Take(json, "data", encoded);
  for (const auto& [key, value] : encoded) {
    auto decoded = Base64Decode(value);
    if (!decoded) {
      return Fail(Code::kInvalid, "secret {}: value of \"{}\" is not base64",
                  out.metadata.Key().ToString(), key);
    }
    out.data.emplace(key, Secret(*std::move(decoded)));
  }
  return out;
}

Secret SecretObject::Value(std::string_view key) const {
  const auto it = data.find(key);
  if (it == data.end()) return Secret();
  return Secret(std::string(Trimmed(it->second.Reveal())));
}

Result<Node> Node::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<Node>(json));
  Take(Child(json, "spec"), "unschedulable", out.unschedulable);
  const Json& status = Child(json, "status");
  const Json& conditions = Child(status, "conditions");
  if (conditions.is_array()) {
    for (const auto& condition : conditions) {
      std::string type;
      std::string value;
      Take(condition, "type", type);
      Take(condition, "status", value);
      if (type == "Ready") out.ready = value == kStatusTrue;
    }
  }
  const Json& addresses = Child(status, "addresses");
  if (addresses.is_array()) {
    for (const auto& address : addresses) {
      std::string type;
      Take(address, "type", type);
      if (type == "InternalIP" && out.internal_ip.empty())
        Take(address, "address", out.internal_ip);
    }
  }
  return out;
}

Result<PersistentVolume> PersistentVolume::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<PersistentVolume>(json));
  const Json& spec = Child(json, "spec");
  Take(spec, "storageClassName", out.storage_class);
  out.claim = Reference(Child(spec, "claimRef"));
  const Json& csi = Child(spec, "csi");
  Take(csi, "driver", out.csi_driver);
  Take(csi, "volumeHandle", out.csi_volume_handle);
  Take(csi, "volumeAttributes", out.csi_volume_attributes);
  Take(Child(json, "status"), "phase", out.phase);
  return out;
}

Result<PersistentVolumeClaim> PersistentVolumeClaim::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<PersistentVolumeClaim>(json));
  const Json& spec = Child(json, "spec");
  Take(spec, "volumeName", out.volume_name);
  Take(spec, "storageClassName", out.storage_class);
  Take(Child(json, "status"), "phase", out.phase);
  return out;
}

Result<StatefulSet> StatefulSet::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<StatefulSet>(json));
  Take(Child(json, "spec"), "replicas", out.replicas);
  const Json& status = Child(json, "status");
  Take(status, "readyReplicas", out.ready_replicas);
  Take(status, "currentReplicas", out.current_replicas);
  Take(status, "updatedReplicas", out.updated_replicas);
  Take(status, "observedGeneration", out.observed_generation);
  Take(status, "currentRevision", out.current_revision);
  Take(status, "updateRevision", out.update_revision);
  return out;
}

Result<Event> Event::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<Event>(json));
  out.involved = Reference(Child(json, "involvedObject"));
  Take(json, "type", out.type);
  Take(json, "reason", out.reason);
  Take(json, "message", out.message);
  Take(json, "count", out.count);
  Take(json, "firstTimestamp", out.first_timestamp);
  Take(json, "lastTimestamp", out.last_timestamp);
  return out;
}

Result<Lease> Lease::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<Lease>(json));
  const Json& spec = Child(json, "spec");
  Take(spec, "holderIdentity", out.holder);
  Take(spec, "leaseDurationSeconds", out.duration_seconds);
  Take(spec, "leaseTransitions", out.transitions);
  Take(spec, "acquireTime", out.acquire_time);
  Take(spec, "renewTime", out.renew_time);
  return out;
}

Result<PodGroup> PodGroup::FromJson(const Json& json) {
  ASSIGN_OR_RETURN(auto out, WithMeta<PodGroup>(json));
  const Json& spec = Child(json, "spec");
  Take(spec, "minMember", out.min_member);
  Take(spec, "queue", out.queue);
  out.applied_by_user = Child(Child(json, "metadata"), "annotations")
                            .contains("kubectl.kubernetes.io/last-applied-configuration");
  Take(Child(json, "status"), "phase", out.phase);
  return out;
}

template Result<Namespace> ParseAs<Namespace>(std::string_view);
template Result<Service> ParseAs<Service>(std::string_view);
template Result<ConfigMap> ParseAs<ConfigMap>(std::string_view);
template Result<SecretObject> ParseAs<SecretObject>(std::string_view);
template Result<Node> ParseAs<Node>(std::string_view);
template Result<PersistentVolume> ParseAs<PersistentVolume>(std::string_view);
template Result<PersistentVolumeClaim> ParseAs<PersistentVolumeClaim>(std::string_view);
template Result<StatefulSet> ParseAs<StatefulSet>(std::string_view);
template Result<Event> ParseAs<Event>(std::string_view);
template Result<Lease> ParseAs<Lease>(std::string_view);
template Result<PodGroup> ParseAs<PodGroup>(std::string_view);

}  // namespace paddleop::api
