#include "standalone/node/kubelet/pod_spec.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "api/meta/quantity.h"
#include "standalone/node/json_child.h"

namespace paddleop::standalone::node {
namespace {

using api::Json;

std::string Text(const Json& json, const char* key) {
  const Json& value = Child(json, key);
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? value.dump() : std::string();
}
bool Flag(const Json& json, const char* key) {
  const Json& value = Child(json, key);
  return value.is_boolean() && value.get<bool>();
}
std::int64_t Number(const Json& json, const char* key, std::int64_t fallback) {
  const Json& value = Child(json, key);
  return value.is_number() ? value.get<std::int64_t>() : fallback;
}
std::vector<std::string> Words(const Json& json, const char* key) {
  std::vector<std::string> out;
  for (const Json& word : Child(json, key)) {
    if (word.is_string()) out.push_back(word.get<std::string>());
  }
  return out;
}
api::StringMap Map(const Json& json) {
  api::StringMap out;
  if (!json.is_object()) return out;
  for (const auto& [key, value] : json.items())
    out[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return out;
}
KeyReference Reference(const Json& json) {
  return {Text(json, "name"), Text(json, "key"), Flag(json, "optional")};
}

EnvVar ReadEnv(const Json& json) {
  EnvVar out{.name = Text(json, "name"), .value = Text(json, "value")};
  const Json& from = Child(json, "valueFrom");
  if (const Json& map = Child(from, "configMapKeyRef"); map.is_object()) {
    out.source = EnvVar::Source::kConfigMap;
    out.reference = Reference(map);
  } else if (const Json& secret = Child(from, "secretKeyRef"); secret.is_object()) {
    out.source = EnvVar::Source::kSecret;
    out.reference = Reference(secret);
  } else if (const Json& field = Child(from, "fieldRef"); field.is_object()) {
    out.source = EnvVar::Source::kField;
    out.path = Text(field, "fieldPath");
  } else if (const Json& resource = Child(from, "resourceFieldRef"); resource.is_object()) {
    out.source = EnvVar::Source::kResource;
    out.path = Text(resource, "resource");
    out.container = Text(resource, "containerName");
    out.divisor = Text(resource, "divisor");
  }
  return out;
}

EnvFrom ReadEnvFrom(const Json& json) {
  EnvFrom out{.prefix = Text(json, "prefix")};
  out.secret = Child(json, "secretRef").is_object();
  const Json& from = Child(json, out.secret ? "secretRef" : "configMapRef");
  out.name = Text(from, "name");
  out.optional = Flag(from, "optional");
  return out;
}

std::optional<Probe> ReadProbe(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  Probe out;
  if (const Json& exec = Child(json, "exec"); exec.is_object()) {
    out.kind = Probe::Kind::kExec;
    out.command = Words(exec, "command");
  } else if (const Json& http = Child(json, "httpGet"); http.is_object()) {
    out.kind = Probe::Kind::kHttp;
    out.https = Text(http, "scheme") == "HTTPS";
    out.host = Text(http, "host");
    if (const std::string path = Text(http, "path"); !path.empty()) out.path = path;
    out.port = Text(http, "port");
    for (const Json& header : Child(http, "httpHeaders"))
      out.headers.emplace_back(Text(header, "name"), Text(header, "value"));
  } else if (const Json& tcp = Child(json, "tcpSocket"); tcp.is_object()) {
    out.kind = Probe::Kind::kTcp;
    out.host = Text(tcp, "host");
    out.port = Text(tcp, "port");
  }
  out.initial_delay = std::chrono::seconds(Number(json, "initialDelaySeconds", 0));
  out.period = std::chrono::seconds(std::max<std::int64_t>(1, Number(json, "periodSeconds", 10)));
  out.timeout = std::chrono::seconds(std::max<std::int64_t>(1, Number(json, "timeoutSeconds", 1)));
  out.success_threshold = static_cast<int>(Number(json, "successThreshold", 1));
  out.failure_threshold = static_cast<int>(Number(json, "failureThreshold", 3));
  return out;
}

ContainerSpec ReadContainer(const Json& json) {
  ContainerSpec out;
  out.name = Text(json, "name");
  out.image = Text(json, "image");
  out.command = Words(json, "command");
  out.args = Words(json, "args");
  out.working_dir = Text(json, "workingDir");
  for (const Json& env : Child(json, "env")) out.env.push_back(ReadEnv(env));
  for (const Json& from : Child(json, "envFrom")) out.env_from.push_back(ReadEnvFrom(from));
  for (const Json& mount : Child(json, "volumeMounts")) {
    out.mounts.push_back({Text(mount, "name"), Text(mount, "mountPath"), Text(mount, "subPath"),
                          Flag(mount, "readOnly")});
  }
  for (const Json& port : Child(json, "ports")) {
    out.ports.emplace_back(Text(port, "name"), static_cast<int>(Number(port, "containerPort", 0)));
  }
  out.requests = Map(Child(Child(json, "resources"), "requests"));
  out.limits = Map(Child(Child(json, "resources"), "limits"));
  out.liveness = ReadProbe(Child(json, "livenessProbe"));
  out.readiness = ReadProbe(Child(json, "readinessProbe"));
  out.startup = ReadProbe(Child(json, "startupProbe"));
  out.pre_stop = Words(Child(Child(Child(json, "lifecycle"), "preStop"), "exec"), "command");
  out.sidecar = Text(json, "restartPolicy") == "Always";
  return out;
}

void ReadVolumes(const Json& spec, PodSpec& out) {
  for (const Json& volume : Child(spec, "volumes")) {
    VolumeSpec each{.name = Text(volume, "name")};
    for (const auto& [key, value] : volume.items()) {
      if (key == "name") continue;
      each.kind = key;
      each.source.text = api::DumpJson(value);
    }
    out.volumes.push_back(std::move(each));
  }
}

void ReadSpec(const Json& spec, PodSpec& out) {
  out.node_name = Text(spec, "nodeName");
  out.scheduler_name = Text(spec, "schedulerName");
  out.service_account = Text(spec, "serviceAccountName");
  out.hostname = Text(spec, "hostname");
  out.subdomain = Text(spec, "subdomain");
  out.host_network = Flag(spec, "hostNetwork");
  const std::string restart = Text(spec, "restartPolicy");
  if (restart == "Never") out.restart = RestartPolicy::kNever;
  if (restart == "OnFailure") out.restart = RestartPolicy::kOnFailure;
  out.grace = std::chrono::seconds(Number(spec, "terminationGracePeriodSeconds", 30));
  if (Child(spec, "activeDeadlineSeconds").is_number())
    out.active_deadline = std::chrono::seconds(Number(spec, "activeDeadlineSeconds", 0));
  for (const Json& each : Child(spec, "initContainers"))
    out.init_containers.push_back(ReadContainer(each));
  for (const Json& each : Child(spec, "containers")) out.containers.push_back(ReadContainer(each));
  for (const Json& alias : Child(spec, "hostAliases"))
    out.host_aliases.emplace_back(Text(alias, "ip"), Words(alias, "hostnames"));
  ReadVolumes(spec, out);
  out.node_selector = Map(Child(spec, "nodeSelector"));
  const Json& affinity = Child(Child(spec, "affinity"), "nodeAffinity");
  if (affinity.is_object()) out.node_affinity.text = api::DumpJson(affinity);
  const Json& tolerations = Child(spec, "tolerations");
  if (tolerations.is_array()) out.tolerations.text = api::DumpJson(tolerations);
}

// metadata.labels['a'] -> a
std::optional<std::string> Subscript(std::string_view path, std::string_view map) {
  if (!path.starts_with(map) || !path.ends_with("']")) return std::nullopt;
  path.remove_prefix(map.size());
  if (!path.starts_with("['")) return std::nullopt;
  return std::string(path.substr(2, path.size() - 4));
}

// All labels or annotations, as files of the downward API have them: key="value" lines.
std::string Lines(const api::StringMap& map) {
  std::string out;
  for (const auto& [key, value] : map) {
    if (!out.empty()) out += '\n';
    out += key + "=" + Json(value).dump();
  }
  return out;
}

}  // namespace

Result<PodSpec> PodSpec::Parse(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, api::ParseJson(text));
  PodSpec out;
  ASSIGN_OR_RETURN(out.metadata, api::ObjectMetaFromJson(Child(json, "metadata")));
  const Json& metadata = Child(json, "metadata");
  if (Child(metadata, "deletionGracePeriodSeconds").is_number()) {
    out.deletion_grace = std::chrono::seconds(Number(metadata, "deletionGracePeriodSeconds", 0));
  }
  ReadSpec(Child(json, "spec"), out);
  const Json& status = Child(json, "status");
  out.status.text = status.is_object() ? api::DumpJson(status) : "{}";
  out.phase = Text(status, "phase");
  out.pod_ip = Text(status, "podIP");
  for (const Json& condition : Child(status, "conditions")) {
    if (Text(condition, "type") == "Ready") out.ready = Text(condition, "status") == "True";
  }
  return out;
}

Result<std::string> FieldValue(const PodSpec& pod, const NodeFacts& facts, std::string_view path) {
  if (path == "metadata.name") return pod.metadata.name;
  if (path == "metadata.namespace") return pod.metadata.ns;
  if (path == "metadata.uid") return pod.metadata.uid;
  if (path == "metadata.labels") return Lines(pod.metadata.labels);
  if (path == "metadata.annotations") return Lines(pod.metadata.annotations);
  if (path == "spec.nodeName") return facts.node_name;
  if (path == "spec.serviceAccountName") return pod.service_account;
  if (path == "status.hostIP" || path == "status.hostIPs") return facts.host_ip;
  if (path == "status.podIP" || path == "status.podIPs") return facts.pod_ip;
  if (auto key = Subscript(path, "metadata.labels")) return std::string(pod.metadata.Label(*key));
  if (auto key = Subscript(path, "metadata.annotations"))
    return std::string(pod.metadata.Annotation(*key));
  return Fail(Code::kInvalid, "fieldPath {} is not one a pod has", path);
}

Result<std::string> ResourceValue(const ContainerSpec& container, std::string_view resource,
                                  const std::string& divisor) {
  const std::size_t dot = resource.find('.');
  const std::string_view list = resource.substr(0, dot);
  const std::string name(dot == std::string_view::npos ? "" : resource.substr(dot + 1));
  if (name.empty() || (list != "limits" && list != "requests")) {
    return Fail(Code::kInvalid, "resource {} must be limits.NAME or requests.NAME", resource);
  }
  const api::StringMap& from = list == "limits" ? container.limits : container.requests;
  std::string text = "0";
  if (const auto found = from.find(name); found != from.end()) {
    text = found->second;
  } else if (name == "cpu") {  // without a limit, what the node has
    text = std::to_string(::sysconf(_SC_NPROCESSORS_ONLN));
  } else if (name == "memory") {
    text = std::to_string(::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE));
  }
  ASSIGN_OR_RETURN(api::Quantity value, api::Quantity::Parse(text));
  ASSIGN_OR_RETURN(api::Quantity unit,
                   api::Quantity::Parse(divisor.empty() || divisor == "0" ? "1" : divisor));
  // Both in thousandths: divisors are 1, 1m or whole multiples of bytes.
  if (!value.Multiply(1000) || !unit.Multiply(1000)) {
    return Fail(Code::kInvalid, "resource {} is too large", resource);
  }
  const std::int64_t by = std::max<std::int64_t>(1, unit.ToInteger());
  return std::to_string((value.ToInteger() + by - 1) / by);
}

}  // namespace paddleop::standalone::node
