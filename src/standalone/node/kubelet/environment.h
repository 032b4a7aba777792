#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/core/objects.h"
#include "base/context.h"
#include "standalone/node/kubelet/pod_spec.h"

namespace paddleop::standalone::node {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Reads ConfigMaps and Secrets of a pod's namespace. kNotFound where there is none.
class ConfigSource {
 public:
  virtual ~ConfigSource() = default;
  virtual Result<api::ConfigMap> GetConfigMap(const Context& ctx, const api::ObjectKey& key) = 0;
  virtual Result<api::SecretObject> GetSecret(const Context& ctx, const api::ObjectKey& key) = 0;
};

// "$(NAME)" becomes the variable's value, "$$" a dollar; a name that is not set stays as written.
std::string Expand(std::string_view text, const Environment& env);

// The environment of a container: `base` (what an image would bring), then envFrom, then env, later
// ones winning. kNotFound with kubelet's words if a ConfigMap, Secret or key is missing that is not
// optional: the container waits for it.
Result<Environment> ContainerEnvironment(const Context& ctx, const PodSpec& pod,
                                         const ContainerSpec& container, const NodeFacts& facts,
                                         const Environment& base, ConfigSource& source);

}  // namespace paddleop::standalone::node
