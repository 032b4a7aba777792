// The certificate and token by which the runtimes of a set and the controllers know each other.
#pragma once

#include <optional>
#include <string>

#include "controllers/sampleset/plan.h"

namespace paddleop::controllers::sampleset {

// `recheck` is when to look again. `auth` is null if there is no Secret yet.
struct AuthReview {
  AuthWork work;
  std::chrono::seconds recheck{0};
};
AuthReview ReviewAuth(const api::SampleSet& set, const api::SecretObject* auth, api::Time now);

// The Secret as it is to be: a whole object to create or, if there is one, the merge patch. Keys
// and tokens are random, so this is not a function of its arguments alone.
Result<CreateObject> MakeAuth(const api::SampleSet& set, const api::SecretObject* auth,
                              const AuthWork& work, api::Time now);

}  // namespace paddleop::controllers::sampleset
