#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/mutex.h"
#include "controllers/common/caches.h"
#include "controllers/common/changes.h"
#include "controllers/common/runtimes.h"
#include "controllers/sampleset/children.h"
#include "controllers/sampleset/plan.h"

namespace paddleop::controllers::sampleset {

// Reads everything a decision about a set depends on: the caches, the Secrets by name, and the
// set's runtimes.
//
// Thread-safe.
class Observer {
 public:
  Observer(kube::ClusterClient& client, Caches& caches, Children& children, ChangeApplier& parallel,
           RuntimePool& runtimes, Clock& clock);

  // kNotFound if the set is gone.
  Result<Observed> Observe(const Context& ctx, const kube::ObjectKey& key);
  void Forget(const kube::ObjectKey& key);
  // Secrets of this set are read afresh next time.
  void Refresh(const kube::ObjectKey& key);

  // A client of one runtime of the set.
  Result<std::shared_ptr<runtime::RuntimeClient>> Dial(const Observed& seen, std::int32_t index);

 private:
  struct Secrets {
    SecretView volume;
    std::vector<SecretView> sources;
    std::shared_ptr<const api::SecretObject> auth;
    std::shared_ptr<const api::SecretObject> volume_copy;
    std::chrono::steady_clock::time_point read;
    std::string resource_version;  // of the set they were read for
  };

  Result<void> ReadSecrets(const Context& ctx, Observed& seen);
  Result<Secrets> ReadSecretsNow(const Context& ctx, const api::SampleSet& set);
  Result<void> CheckName(const Context& ctx, Observed& seen);
  // True if another set of this name has the plain name in cluster scope, or is about to get it.
  bool NamesakeGoesFirst(const api::SampleSet& set) const;
  void LookAtNodes(Observed& seen);
  void LookAtJobs(Observed& seen);
  Result<void> AskRuntimes(const Context& ctx, Observed& seen);
  void AskForJob(const Context& ctx, const Observed& seen, runtime::JobKind kind,
                 const std::string& name, std::optional<JobSeen>& out);

  kube::ClusterClient& client_;
  Caches& caches_;
  Children& children_;
  ChangeApplier& parallel_;
  RuntimePool& runtimes_;
  Clock& clock_;
  Mutex mutex_;
  std::unordered_map<kube::ObjectKey, Secrets> secrets_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::controllers::sampleset
