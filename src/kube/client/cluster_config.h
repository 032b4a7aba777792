#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "kube/client/credentials.h"
#include "net/tls.h"

namespace paddleop::kube {

// Where a cluster is and who we are to it.
struct ClusterConfig {
  std::string server;  // "https://host:6443", without a trailing slash
  net::ClientTls tls;
  std::shared_ptr<Credentials> credentials;  // null: the certificates in `tls`, or nobody
  std::string ns = "default";                // of the context, or of our pod
};

// Reads a kubeconfig. `context` empty: its current-context. Relative paths are relative to
// `base_dir`, the folder the file lies in. kInvalid or kNotSupported name the field and what to do.
Result<ClusterConfig> ParseKubeconfig(std::string_view yaml, const std::string& base_dir,
                                      const std::string& context = "",
                                      Clock& clock = Clock::System());
Result<ClusterConfig> LoadKubeconfig(const std::string& path, const std::string& context = "",
                                     Clock& clock = Clock::System());

inline constexpr char kServiceAccountDir[] = "/var/run/secrets/kubernetes.io/serviceaccount";

// The identity of the pod we run in. kNotFound if this is no pod (KUBERNETES_SERVICE_HOST is
// unset).
Result<ClusterConfig> InClusterConfig(const std::string& dir = kServiceAccountDir,
                                      Clock& clock = Clock::System());

// The first of: `path` if not empty, $KUBECONFIG, the pod's identity, ~/.kube/config.
Result<ClusterConfig> LoadClusterConfig(const std::string& path = "",
                                        const std::string& context = "",
                                        Clock& clock = Clock::System());

}  // namespace paddleop::kube
