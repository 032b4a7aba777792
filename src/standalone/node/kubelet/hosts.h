#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/core/objects.h"
#include "standalone/node/kubelet/pod_spec.h"

namespace paddleop::standalone::node {

// /etc/hosts of a pod: itself, its aliases, and the names that a cluster's DNS would answer for
// Services: each name leads to the pods that the Service selects. Pure.
std::string HostsFile(const PodSpec& pod, const std::string& ip,
                      const std::vector<std::shared_ptr<const api::Service>>& services,
                      const std::vector<std::shared_ptr<const PodSpec>>& pods);

// Writes the file in place: containers have this very file as /etc/hosts.
bool WriteHostsFile(const std::string& path, const std::string& text);

}  // namespace paddleop::standalone::node
