// Secrets that objects of ours refer to.
#pragma once

#include <memory>
#include <string>

#include "api/batch/sample_set.h"
#include "api/core/objects.h"
#include "kube/client/cluster_client.h"

namespace paddleop::controllers {

// A Secret that is used from another namespace says so itself, with a comma-separated list of
// namespaces or "*": whoever may write a SampleSet must not gain access to Secrets elsewhere.
inline constexpr char kSharedWithAnnotation[] = "paddlepaddle.org/shared-with";

struct SecretView {
  enum class State {
    kNone,     // nothing is referred to
    kMissing,  // there is no such Secret
    kRefused,  // it is in another namespace and not shared with ours
    kFound,
  };
  State state = State::kNone;
  kube::ObjectKey key;
  std::shared_ptr<const api::SecretObject> secret;  // kFound

  bool found() const { return state == State::kFound; }
  // For conditions: what is wrong and what to do. `field` is the one that names the Secret.
  std::string Problem(std::string_view field) const;
};

// Read afresh. An error only if the API server did not answer.
Result<SecretView> ReadSecret(const Context& ctx, kube::ClusterClient& client,
                              const std::optional<api::SecretReference>& ref,
                              const std::string& ns);

}  // namespace paddleop::controllers
