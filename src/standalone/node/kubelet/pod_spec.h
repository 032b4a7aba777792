// What a kubelet reads of a pod: all of the spec that decides how its processes run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/meta/object_meta.h"

namespace paddleop::standalone::node {

struct KeyReference {
  std::string name;  // of the ConfigMap or Secret
  std::string key;
  bool optional = false;
};

struct EnvVar {
  enum class Source : std::uint8_t { kLiteral, kConfigMap, kSecret, kField, kResource };

  std::string name;
  Source source = Source::kLiteral;
  std::string value;
  KeyReference reference;  // kConfigMap, kSecret
  std::string path;        // kField: metadata.name; kResource: limits.cpu
  std::string container;   // kResource: of another container
  std::string divisor;     // kResource
};

struct EnvFrom {
  std::string prefix;
  bool secret = false;
  std::string name;
  bool optional = false;
};

struct VolumeMount {
  std::string volume;
  std::string path;
  std::string sub_path;
  bool read_only = false;
};

struct Probe {
  enum class Kind : std::uint8_t { kExec, kHttp, kTcp, kUnsupported };

  Kind kind = Kind::kUnsupported;
  std::vector<std::string> command;
  bool https = false;
  std::string host;
  std::string path = "/";
  std::string port;  // a number, or the name of one of the container's
  std::vector<std::pair<std::string, std::string>> headers;
  std::chrono::seconds initial_delay{0};
  std::chrono::seconds period{10};
  std::chrono::seconds timeout{1};
  int success_threshold = 1;
  int failure_threshold = 3;
};

struct ContainerSpec {
  std::string name;
  std::string image;
  std::vector<std::string> command;
  std::vector<std::string> args;
  std::string working_dir;
  std::vector<EnvVar> env;
  std::vector<EnvFrom> env_from;
  std::vector<VolumeMount> mounts;
  std::vector<std::pair<std::string, int>> ports;  // name, number
  api::StringMap requests;
  api::StringMap limits;
  std::optional<Probe> liveness;
  std::optional<Probe> readiness;
  std::optional<Probe> startup;
  std::vector<std::string> pre_stop;  // a command; other kinds of hooks are refused
  bool sidecar = false;               // an init container with restartPolicy Always
};

struct VolumeSpec {
  std::string name;
  std::string kind;     // emptyDir, configMap, ...: the name of its field
  api::RawJson source;  // the field's value
};

enum class RestartPolicy : std::uint8_t { kAlways, kOnFailure, kNever };

struct PodSpec {
  api::ObjectMeta metadata;
  std::string node_name;
  std::string scheduler_name;
  std::string service_account;
  std::string hostname;
  std::string subdomain;
  bool host_network = false;
  RestartPolicy restart = RestartPolicy::kAlways;
  std::chrono::seconds grace{30};
  std::optional<std::chrono::seconds> active_deadline;
  std::optional<std::chrono::seconds> deletion_grace;
  std::vector<ContainerSpec> init_containers;
  std::vector<ContainerSpec> containers;
  std::vector<VolumeSpec> volumes;
  std::vector<std::pair<std::string, std::vector<std::string>>> host_aliases;  // ip, names
  // What a scheduler looks at.
  api::StringMap node_selector;
  api::RawJson node_affinity;
  api::RawJson tolerations;
  // The status as the API server has it.
  api::RawJson status;
  std::string phase;
  std::string pod_ip;
  bool ready = false;

  api::ObjectKey Key() const { return metadata.Key(); }
  bool Finished() const { return phase == "Succeeded" || phase == "Failed"; }

  static Result<PodSpec> Parse(std::string_view json);
};

// The value of a downward API field path, or kInvalid for one that there is not. What only the node
// knows (addresses) is given.
struct NodeFacts {
  std::string node_name;
  std::string host_ip;
  std::string pod_ip;
};
Result<std::string> FieldValue(const PodSpec& pod, const NodeFacts& facts, std::string_view path);

// limits.cpu, requests.memory, ... of a container, divided and rounded up.
Result<std::string> ResourceValue(const ContainerSpec& container, std::string_view resource,
                                  const std::string& divisor);

}  // namespace paddleop::standalone::node
