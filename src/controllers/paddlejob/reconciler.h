#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "controllers/common/caches.h"
#include "controllers/common/changes.h"
#include "controllers/paddlejob/children.h"
#include "controllers/paddlejob/etcd.h"
#include "controllers/paddlejob/plan.h"
#include "controllers/paddlejob/ports.h"
#include "kube/manager/controller.h"
#include "kube/manager/events.h"

namespace paddleop::controllers::paddlejob {

// Observes a job, decides, applies the plan. Thread-safe, as controllers need it.
class JobReconciler final : public kube::Reconciler {
 public:
  struct Parts {
    kube::ClusterClient& client;
    Caches& caches;
    Children& children;
    ChangeApplier& applier;
    PortAllocator& ports;
    Etcd* etcd = nullptr;  // null: none is configured
    kube::EventRecorder& events;
    const Logger& log;
    Clock& clock;
  };

  JobReconciler(Settings settings, Parts parts);

  Result<kube::Requeue> Reconcile(const Context& ctx, const kube::ObjectKey& key) override;

 private:
  // Null if the job is gone.
  Result<Observed> Observe(const kube::ObjectKey& key);
  void FindPorts(Observed& seen);
  Result<void> CarryOut(const Context& ctx, const Observed& seen, const Plan& plan,
                        kube::Requeue& requeue);
  // The server will not take what we make: tells the user, and the queue's back-off keeps us from
  // asking often.
  void Refused(const Context& ctx, const Observed& seen, const Plan& plan, const Status& why);
  Result<void> PatchJob(const Context& ctx, const api::PaddleJob& job, const std::string& patch);
  Result<void> WriteStatus(const Context& ctx, const api::PaddleJob& job,
                           const api::PaddleJobStatus& status, bool unchanged_only);
  // True if the difference is in the counters alone and may wait for more to come; sets the time to
  // come again.
  bool MayWait(const kube::ObjectKey& key, const api::PaddleJobStatus& before,
               const api::PaddleJobStatus& after, kube::Requeue& requeue);
  void AnnounceWorkers(const Context& ctx, const Observed& seen, const Plan& plan,
                       kube::Requeue& requeue);
  void Tell(const Observed& seen, const ChangeNote& note);
  void Forget(const kube::ObjectKey& key);

  const Settings settings_;
  const Parts parts_;
  Mutex mutex_;
  // When counters that nobody is told of yet first changed.
  std::unordered_map<kube::ObjectKey, std::chrono::steady_clock::time_point> waiting_
      GUARDED_BY(mutex_);
  // Numbers of workers written to etcd.
  std::unordered_map<kube::ObjectKey, int> announced_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::controllers::paddlejob
