#include "standalone/apiserver/defaults.h"

#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "standalone/apiserver/internal/json_path.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

void Default(Json& object, const char* name, Json value) {
  if (!object.contains(name)) object[name] = std::move(value);
}

Json* Find(Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

template <class Each>
void ForEach(Json& object, const char* name, Each each) {
  Json* list = Find(object, name);
  if (list == nullptr || !list->is_array()) return;
  for (Json& item : *list) {
    if (item.is_object()) each(item);
  }
}

void DefaultHttpGet(Json& handler) {
  if (Json* get = Find(handler, "httpGet")) {
    Default(*get, "path", "/");
    Default(*get, "scheme", "HTTP");
  }
}

void DefaultProbe(Json& container, const char* name) {
  Json* probe = Find(container, name);
  if (probe == nullptr) return;
  Default(*probe, "timeoutSeconds", 1);
  Default(*probe, "periodSeconds", 10);
  Default(*probe, "successThreshold", 1);
  Default(*probe, "failureThreshold", 3);
  DefaultHttpGet(*probe);
}

std::string PullPolicy(const std::string& image) {
  const auto slash = image.rfind('/');
  const auto colon = image.rfind(':');
  if (image.find('@') != std::string::npos) return "IfNotPresent";
  const bool tagged = colon != std::string::npos && (slash == std::string::npos || colon > slash);
  return tagged && image.substr(colon) != ":latest" ? "IfNotPresent" : "Always";
}

void DefaultContainer(Json& container) {
  Default(container, "terminationMessagePath", "/dev/termination-log");
  Default(container, "terminationMessagePolicy", "File");
  Default(container, "imagePullPolicy", PullPolicy(TextAt(container, "image")));
  Default(container, "resources", Json::object());
  Json& resources = container["resources"];
  if (Json* limits = Find(resources, "limits")) {
    for (const auto& [name, value] : limits->items())
      Default(resources["requests"], name.c_str(), value);
  }
  ForEach(container, "ports", [](Json& port) { Default(port, "protocol", "TCP"); });
  ForEach(container, "env", [](Json& variable) {
    if (Json* from = Find(variable, "valueFrom")) {
      if (Json* field = Find(*from, "fieldRef")) Default(*field, "apiVersion", "v1");
    }
  });
  for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"}) {
    DefaultProbe(container, probe);
  }
  if (Json* lifecycle = Find(container, "lifecycle")) {
    for (const char* hook : {"postStart", "preStop"}) {
      if (Json* handler = Find(*lifecycle, hook)) DefaultHttpGet(*handler);
    }
  }
}

void DefaultVolume(Json& volume) {
  if (volume.size() == 1) volume["emptyDir"] = Json::object();
  for (const char* source : {"configMap", "secret", "downwardAPI", "projected"}) {
    if (Json* found = Find(volume, source)) Default(*found, "defaultMode", 420);
  }
  if (Json* path = Find(volume, "hostPath")) Default(*path, "type", "");
  if (Json* api = Find(volume, "downwardAPI")) {
    ForEach(*api, "items", [](Json& item) {
      if (Json* field = Find(item, "fieldRef")) Default(*field, "apiVersion", "v1");
    });
  }
}

void DefaultPodSpec(Json& spec) {
  Default(spec, "restartPolicy", "Always");
  Default(spec, "dnsPolicy", "ClusterFirst");
  Default(spec, "terminationGracePeriodSeconds", 30);
  Default(spec, "schedulerName", "default-scheduler");
  Default(spec, "securityContext", Json::object());
  if (spec.contains("serviceAccountName") && !spec.contains("serviceAccount")) {
    spec["serviceAccount"] = spec["serviceAccountName"];
  }
  ForEach(spec, "initContainers", DefaultContainer);
  ForEach(spec, "containers", DefaultContainer);
  ForEach(spec, "volumes", DefaultVolume);
}

bool Tolerates(const Json& spec, std::string_view key) {
  for (const Json& toleration : ListAt(spec, "tolerations")) {
    const std::string found = TextAt(toleration, "key");
    const std::string effect = TextAt(toleration, "effect");
    if ((found == key || found.empty()) && (effect == "NoExecute" || effect.empty())) return true;
  }
  return false;
}

// Guaranteed: limits of cpu and memory everywhere, equal to the requests; BestEffort: none at all.
std::string QualityOfService(const Json& spec) {
  bool any = false;
  bool guaranteed = true;
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& container : ListAt(spec, list)) {
      for (const char* resource : {"cpu", "memory"}) {
        const std::string name = resource;
        const Json* limit = ValueAt(container, "resources.limits." + name);
        const Json* request = ValueAt(container, "resources.requests." + name);
        any = any || limit != nullptr || request != nullptr;
        if (limit == nullptr || (request != nullptr && *request != *limit)) guaranteed = false;
      }
    }
  }
  return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

// What the admission plugins of a cluster add to a new pod.
void AdmitPod(Json& pod) {
  Json& spec = pod["spec"];
  Default(spec, "enableServiceLinks", true);
  Default(spec, "serviceAccountName", "default");
  Default(spec, "serviceAccount", spec["serviceAccountName"]);
  Default(spec, "preemptionPolicy", "PreemptLowerPriority");
  Default(spec, "priority", 0);
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    if (Tolerates(spec, key)) continue;
    spec["tolerations"].push_back({{"key", key},
                                   {"operator", "Exists"},
                                   {"effect", "NoExecute"},
                                   {"tolerationSeconds", 300}});
  }
  pod["status"] = {{"phase", "Pending"}, {"qosClass", QualityOfService(spec)}};
}

void DefaultService(Json& service) {
  Json& spec = service["spec"];
  Default(spec, "type", "ClusterIP");
  Default(spec, "sessionAffinity", "None");
  // There is nothing here that would serve a virtual address.
  Default(spec, "clusterIP", "None");
  if (spec["clusterIP"] == "") spec["clusterIP"] = "None";
  Default(spec, "clusterIPs", Json::array({spec["clusterIP"]}));
  Default(spec, "ipFamilies", Json::array({"IPv4"}));
  Default(spec, "ipFamilyPolicy", "SingleStack");
  Default(spec, "internalTrafficPolicy", "Cluster");
  ForEach(spec, "ports", [](Json& port) {
    Default(port, "protocol", "TCP");
    if (port.contains("port")) Default(port, "targetPort", port["port"]);
  });
  Default(service, "status", {{"loadBalancer", Json::object()}});
}

void DefaultStatefulSet(Json& set) {
  Json& spec = set["spec"];
  Default(spec, "replicas", 1);
  Default(spec, "podManagementPolicy", "OrderedReady");
  Default(spec, "revisionHistoryLimit", 10);
  Default(spec, "serviceName", "");
  Default(spec, "updateStrategy", Json::object());
  Default(spec["updateStrategy"], "type", "RollingUpdate");
  if (spec["updateStrategy"]["type"] == "RollingUpdate") {
    Default(spec["updateStrategy"], "rollingUpdate", {{"partition", 0}});
  }
  Default(spec, "persistentVolumeClaimRetentionPolicy",
          {{"whenDeleted", "Retain"}, {"whenScaled", "Retain"}});
  if (Json* pod = Find(spec, "template")) {
    Default(*pod, "metadata", Json::object());
    if (Json* pod_spec = Find(*pod, "spec")) DefaultPodSpec(*pod_spec);
  }
  Default(set, "status", {{"replicas", 0}, {"availableReplicas", 0}});
}

void DefaultSecret(Json& secret) {
  Default(secret, "type", "Opaque");
  if (Json* plain = Find(secret, "stringData")) {
    for (const auto& [name, value] : plain->items()) {
      if (value.is_string()) secret["data"][name] = Base64Encode(value.get<std::string>());
    }
    secret.erase("stringData");
  }
}

void DefaultNamespace(Json& space, bool created) {
  space["metadata"]["labels"]["kubernetes.io/metadata.name"] = space["metadata"]["name"];
  if (created) {
    space["spec"] = {{"finalizers", {"kubernetes"}}};
    space["status"] = {{"phase", "Active"}};
  }
}

}  // namespace

void SetDefaults(const Kind& kind, Json& object, bool created) {
  if (kind.custom) return;
  const auto name = kind.type.kind;
  if (name == "Pod") {
    if (!object.contains("spec")) return;
    DefaultPodSpec(object["spec"]);
    if (created) AdmitPod(object);
  } else if (name == "Service") {
    DefaultService(object);
  } else if (name == "StatefulSet") {
    DefaultStatefulSet(object);
  } else if (name == "Secret") {
    DefaultSecret(object);
  } else if (name == "Namespace") {
    DefaultNamespace(object, created);
  } else if (name == "PersistentVolumeClaim") {
    Default(object["spec"], "volumeMode", "Filesystem");
    if (created) object["status"] = {{"phase", "Pending"}};
  } else if (name == "PersistentVolume") {
    Default(object["spec"], "volumeMode", "Filesystem");
    Default(object["spec"], "persistentVolumeReclaimPolicy", "Retain");
    if (created) object["status"] = {{"phase", "Pending"}};
  }
}

}  // namespace paddleop::standalone::apiserver
