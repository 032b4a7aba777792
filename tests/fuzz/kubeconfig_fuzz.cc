// A kubeconfig is a user's file: bad ones are refused with a message, never with a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kube/client/cluster_config.h"
#include "kube/client/exec_plugin.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)paddleop::kube::ParseKubeconfig(text, "/base");
  (void)paddleop::kube::ParseExecCredential(text, "client.authentication.k8s.io/v1");
  return 0;
}
