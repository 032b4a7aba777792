#include "controllers/sampleset/objects.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "controllers/common/child.h"
#include "controllers/sampleset/mount_options.h"
#include "controllers/sampleset/names.h"
#include "runtime/protocol/paths.h"

namespace paddleop::controllers::sampleset {
namespace {

using api::Json;

bool IsJuicefs(const api::SampleSet& set) { return set.spec.Driver() == api::csi_driver::kJuicefs; }

Json Metadata(const api::SampleSet& set, const std::string& name) {
  Json metadata = ChildMetadata(api::SampleSet::kType, set.metadata, name, ChildLabels(set));
  metadata["annotations"]["CreatedBy"] = "paddle-operator";
  return metadata;
}

CreateObject Make(const api::ResourceType& type, const api::SampleSet& set, const std::string& name,
                  Json body) {
  body["apiVersion"] = type.ApiVersion();
  body["kind"] = type.kind;
  return {type, {set.metadata.ns, name}, api::DumpJson(body)};
}

api::StringMap PodLabels(const api::SampleSet& set) {
  api::StringMap labels = ChildLabels(set);
  labels["name"] = StatefulSetName(set.metadata.name);
  return labels;
}

Json ToObject(const api::StringMap& map) {
  Json object = Json::object();
  for (const auto& [key, value] : map) object[key] = value;
  return object;
}

// What finds the set's runtime pods and nobody else's.
Json PodSelector(const api::SampleSet& set) {
  return {{"name", StatefulSetName(set.metadata.name)}, {kSetUidLabel, set.metadata.uid}};
}

Json Affinity(const api::SampleSet& set) {
  Json affinity = {{"podAntiAffinity",
                    {{"requiredDuringSchedulingIgnoredDuringExecution",
                      Json::array({{{"topologyKey", "kubernetes.io/hostname"},
                                    {"labelSelector", {{"matchLabels", PodSelector(set)}}}}})}}}};
  if (!set.spec.node_affinity.empty()) {
    auto given = api::ParseJson(set.spec.node_affinity.text);
    if (given) affinity["nodeAffinity"] = *std::move(given);
  }
  return affinity;
}

Json Command(const Settings& settings, const api::SampleSet& set) {
  const std::string& name = set.metadata.name;
  Json command = {"samplefs", "runtime", "--set=" + name, "--namespace=" + set.metadata.ns,
                  "--pod-name=$(POD_NAME)",
                  // Its own address only: pods of one machine may share a network.
                  fmt::format("--listen=$(POD_IP):{}", runtime::kDefaultPort),
                  fmt::format("--auth-dir={}", kAuthDirectory),
                  fmt::format("--volume-dir={}", kVolumeDirectory)};
  for (const auto& level : set.spec.cache_levels) {
    // A level is tried before those after it and has a limit of its own.
    command.push_back(fmt::format("--cache-level={},{},{}", level.medium_type, level.path,
                                  level.cache_size > 0 ? level.cache_size : kUnlimitedMib));
  }
  if (set.spec.cache_levels.empty()) {
    std::string directories;
    for (const auto& directory : CacheDirectories(set.spec, set.status.volume_name))
      directories += (directories.empty() ? "" : ":") + directory.path;
    command.push_back("--cache-dir=" + directories);
    command.push_back(fmt::format("--cache-size={}", CacheSizeMib(set.spec)));
  }
  if (set.spec.csi && set.spec.csi->mount_options &&
      !set.spec.csi->mount_options->free_space_ratio.empty()) {
    command.push_back("--free-space-ratio=" + set.spec.csi->mount_options->free_space_ratio);
  }
  for (const auto& directory : settings.source_dirs) command.push_back("--source-dir=" + directory);
  if (IsJuicefs(set)) {
    command.push_back("--driver=juicefs");
    command.push_back(fmt::format("--data-dir={}/{}", settings.mount_root, name));
  }
  return command;
}

Json FieldEnv(const char* name, const char* path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
}

Json Probe(const char* path, int period, int failures) {
  return {{"httpGet", {{"path", path}, {"port", "runtime"}, {"scheme", "HTTPS"}}},
          {"periodSeconds", period},
          {"timeoutSeconds", 5},
          {"failureThreshold", failures}};
}

Json Items(std::initializer_list<const char*> keys) {
  Json items = Json::array();
  for (const char* key : keys) items.push_back({{"key", key}, {"path", key}});
  return items;
}

Json Volumes(const Settings& settings, const api::SampleSet& set) {
  const std::string& name = set.metadata.name;
  // The authority's key stays out of the pod. The previous token is there for an hour only, so its
  // volume is optional; what exists is mounted.
  Json volumes =
      Json::array({{{"name", "auth"},
                    {"projected",
                     {{"defaultMode", 0400},
                      {"sources",
                       {{{"secret",
                          {{"name", RuntimeAuthName(name)},
                           {"items", Items({auth_key::kAuthority, auth_key::kCertificate,
                                            auth_key::kKey, auth_key::kToken})}}}},
                        {{"secret",
                          {{"name", RuntimeAuthName(name)},
                           {"optional", true},
                           {"items", Items({auth_key::kPreviousToken})}}}}}}}}},
                   {{"name", "volume"},
                    {"secret", {{"secretName", VolumeSecretName(name)}, {"defaultMode", 0400}}}}});
  int index = 0;
  for (const auto& directory : CacheDirectories(set.spec, set.status.volume_name)) {
    volumes.push_back({{"name", fmt::format("cache-{}", index++)},
                       {"hostPath", {{"path", directory.path}, {"type", "DirectoryOrCreate"}}}});
  }
  index = 0;
  for (const auto& directory : settings.source_dirs) {
    volumes.push_back({{"name", fmt::format("source-{}", index++)},
                       {"hostPath", {{"path", directory}, {"type", "Directory"}}}});
  }
  if (IsJuicefs(set))
    volumes.push_back({{"name", "data"}, {"persistentVolumeClaim", {{"claimName", name}}}});
  return volumes;
}

Json Mounts(const Settings& settings, const api::SampleSet& set) {
  Json mounts = {{{"name", "auth"}, {"mountPath", kAuthDirectory}, {"readOnly", true}},
                 {{"name", "volume"}, {"mountPath", kVolumeDirectory}, {"readOnly", true}}};
  int index = 0;
  for (const auto& directory : CacheDirectories(set.spec, set.status.volume_name)) {
    mounts.push_back({{"name", fmt::format("cache-{}", index++)}, {"mountPath", directory.path}});
  }
  index = 0;
  for (const auto& directory : settings.source_dirs) {
    mounts.push_back({{"name", fmt::format("source-{}", index++)},
                      {"mountPath", directory},
                      {"readOnly", true}});
  }
  if (IsJuicefs(set)) {
    mounts.push_back({{"name", "data"},
                      {"mountPath", fmt::format("{}/{}", settings.mount_root, set.metadata.name)}});
  }
  return mounts;
}

Json PodTemplate(const Settings& settings, const api::SampleSet& set) {
  Json container = {
      {"name", "runtime"},
      {"image", settings.runtime_image},
      {"command", Command(settings, set)},
      {"env",
       {FieldEnv("POD_NAME", "metadata.name"), FieldEnv("POD_NAMESPACE", "metadata.namespace"),
        FieldEnv("POD_IP", "status.podIP"), FieldEnv("NODE_NAME", "spec.nodeName")}},
      {"ports", {{{"name", "runtime"}, {"containerPort", runtime::kDefaultPort}}}},
      {"readinessProbe", Probe("/readyz", 2, 3)},
      {"livenessProbe", Probe("/healthz", 20, 6)},
      {"volumeMounts", Mounts(settings, set)},
      // Root, because the cache directories of the host are root's; without any capability.
      {"securityContext",
       {{"allowPrivilegeEscalation", false},
        {"readOnlyRootFilesystem", true},
        {"runAsUser", 0},
        {"capabilities", {{"drop", {"ALL"}}}}}}};
  Json spec = {{"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"terminationGracePeriodSeconds", 30},
               {"securityContext", {{"seccompProfile", {{"type", "RuntimeDefault"}}}}},
               {"affinity", Affinity(set)},
               {"containers", Json::array({container})},
               {"volumes", Volumes(settings, set)},
               {"tolerations", Json::array()}};
  if (!set.spec.tolerations.empty()) {
    auto given = api::ParseJson(set.spec.tolerations.text);
    if (given) spec["tolerations"] = *std::move(given);
  }
  return {
      {"metadata",
       {{"labels", ToObject(PodLabels(set))}, {"annotations", {{"CreatedBy", "paddle-operator"}}}}},
      {"spec", spec}};
}

}  // namespace

api::StringMap ChildLabels(const api::SampleSet& set) {
  return {{api::SampleSetLabel(set.metadata.name), "true"},
          {kSetLabel, set.metadata.name},
          {kSetUidLabel, set.metadata.uid}};
}

CreateObject VolumeObject(const api::SampleSet& set) {
  const std::string& name = set.status.volume_name;
  Json labels = ToObject(ChildLabels(set));
  labels[kSetNamespaceLabel] = set.metadata.ns;
  const bool juicefs = IsJuicefs(set);
  const Json body = {
      {"apiVersion", "v1"},
      {"kind", "PersistentVolume"},
      // Cluster-scoped, so the set cannot own it; the set's finalizer deletes it.
      {"metadata",
       {{"name", name}, {"labels", labels}, {"annotations", {{"CreatedBy", "paddle-operator"}}}}},
      {"spec",
       {{"accessModes", {"ReadWriteMany"}},
        {"capacity", {{"storage", kCapacity}}},
        {"volumeMode", "Filesystem"},
        {"persistentVolumeReclaimPolicy", "Retain"},
        {"storageClassName", kStorageClass},
        // Nobody else's claim gets it.
        {"claimRef",
         {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeClaim"},
          {"namespace", set.metadata.ns},
          {"name", set.metadata.name}}},
        {"csi",
         {{"driver", juicefs ? kJuicefsCsi : kSamplefsCsi},
          {"fsType", juicefs ? "juicefs" : "samplefs"},
          {"volumeHandle", fmt::format("{}-{}", set.metadata.ns, LongName(set.metadata))},
          {"volumeAttributes", {{"mountOptions", MountOptionsText(set.spec, name)}}},
          {"nodePublishSecretRef",
           {{"name", VolumeSecretName(set.metadata.name)}, {"namespace", set.metadata.ns}}}}}}}};
  return {api::PersistentVolume::kType, {"", name}, api::DumpJson(body)};
}

CreateObject ClaimObject(const api::SampleSet& set) {
  const std::string& name = set.metadata.name;
  return Make(api::PersistentVolumeClaim::kType, set, name,
              {{"metadata", Metadata(set, name)},
               {"spec",
                {{"accessModes", {"ReadWriteMany"}},
                 {"storageClassName", kStorageClass},
                 {"volumeName", set.status.volume_name},
                 {"resources", {{"requests", {{"storage", kCapacity}}}}}}}});
}

CreateObject ServiceObject(const api::SampleSet& set) {
  const std::string name = ServiceName(set.metadata.name);
  return Make(
      api::Service::kType, set, name,
      {{"metadata", Metadata(set, name)},
       {"spec",
        {{"clusterIP", "None"},
         {"publishNotReadyAddresses", true},
         {"selector", PodSelector(set)},
         {"ports",
          {{{"name", "service"}, {"port", runtime::kDefaultPort}, {"targetPort", "runtime"}}}}}}});
}

CreateObject VolumeSecretObject(const api::SampleSet& set, const api::SecretObject& source,
                                bool as_patch) {
  const std::string name = VolumeSecretName(set.metadata.name);
  Json data = Json::object();
  for (const std::string_view key : kVolumeKeys) {
    const Secret value = source.Value(key);
    if (!value.empty()) {
      data[std::string(key)] = Base64Encode(value.Reveal());
    } else if (as_patch) {
      data[std::string(key)] = nullptr;
    }
  }
  return Make(api::SecretObject::kType, set, name,
              {{"metadata", Metadata(set, name)}, {"type", "Opaque"}, {"data", data}});
}

bool SameVolume(const api::SecretObject& copy, const api::SecretObject& source) {
  for (const std::string_view key : kVolumeKeys) {
    if (copy.Value(key) != source.Value(key)) return false;
  }
  return true;
}

std::string TemplateDigest(const Settings& settings, const api::SampleSet& set) {
  return HexEncode(Sha256(api::DumpJson(PodTemplate(settings, set)))).substr(0, 32);
}

CreateObject StatefulSetObject(const Settings& settings, const api::SampleSet& set) {
  const std::string name = StatefulSetName(set.metadata.name);
  Json metadata = Metadata(set, name);
  metadata["annotations"][kTemplateAnnotation] = TemplateDigest(settings, set);
  return Make(api::StatefulSet::kType, set, name,
              {{"metadata", metadata},
               {"spec",
                {{"replicas", set.spec.partitions},
                 {"serviceName", ServiceName(set.metadata.name)},
                 // One partition that cannot start must not keep the others from starting.
                 {"podManagementPolicy", "Parallel"},
                 {"selector", {{"matchLabels", PodSelector(set)}}},
                 {"template", PodTemplate(settings, set)}}}});
}

std::string TemplatePatch(const Settings& settings, const api::SampleSet& set) {
  Json pod = PodTemplate(settings, set);
  // What the user took back must go: a merge patch leaves alone what it does not mention.
  if (!pod["spec"]["affinity"].contains("nodeAffinity"))
    pod["spec"]["affinity"]["nodeAffinity"] = nullptr;
  return api::DumpJson(
      {{"metadata", {{"annotations", {{kTemplateAnnotation, TemplateDigest(settings, set)}}}}},
       {"spec", {{"template", pod}}}});
}

}  // namespace paddleop::controllers::sampleset
