#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "controllers/common/caches.h"
#include "controllers/common/changes.h"
#include "controllers/common/runtimes.h"
#include "controllers/samplejob/plan.h"
#include "kube/manager/controller.h"
#include "kube/manager/events.h"

namespace paddleop::controllers::samplejob {

// Observes a job, decides, applies the plan. Thread-safe, as controllers need it.
class DataJobReconciler final : public kube::Reconciler {
 public:
  struct Parts {
    kube::ClusterClient& client;
    Caches& caches;
    ChangeApplier& applier;
    RuntimePool& runtimes;
    kube::EventRecorder& events;
    const Logger& log;
    Clock& clock;
  };

  explicit DataJobReconciler(Parts parts);

  Result<kube::Requeue> Reconcile(const Context& ctx, const kube::ObjectKey& key) override;

 private:
  using Client = std::shared_ptr<runtime::RuntimeClient>;

  // kNotFound if the job is gone. `zero` becomes runtime 0, or null.
  Result<Observed> Observe(const Context& ctx, const kube::ObjectKey& key, Client& zero);
  Result<void> LookAtRuntime(const Context& ctx, Observed& seen, Client& zero);
  Result<void> ReadSecrets(const Context& ctx, Observed& seen);
  Result<void> CarryOut(const Context& ctx, const Observed& seen, Plan& plan, const Client& zero);
  // A job that the runtime refuses has failed: the plan's status says so afterwards.
  void Post(const Context& ctx, const Observed& seen, Plan& plan, const Client& zero);
  Result<void> WriteStatus(const Context& ctx, const api::SampleJob& job,
                           const api::SampleJobStatus& status, bool unchanged_only);
  void Tell(const api::SampleJob& job, const ChangeNote& note);

  const Parts parts_;
};

}  // namespace paddleop::controllers::samplejob
