#pragma once

#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "controllers/common/caches.h"
#include "controllers/common/changes.h"
#include "controllers/sampleset/observe.h"
#include "controllers/sampleset/plan.h"
#include "kube/manager/controller.h"
#include "kube/manager/events.h"

namespace paddleop::controllers::sampleset {

// Observes a set, decides, applies the plan. Thread-safe, as controllers need it.
class SetReconciler final : public kube::Reconciler {
 public:
  struct Parts {
    kube::ClusterClient& client;
    Caches& caches;
    Observer& observer;
    ChangeApplier& applier;
    kube::EventRecorder& events;
    const Logger& log;
    Clock& clock;
  };

  SetReconciler(Settings settings, Parts parts);

  Result<kube::Requeue> Reconcile(const Context& ctx, const kube::ObjectKey& key) override;

 private:
  Result<void> CarryOut(const Context& ctx, const Observed& seen, Plan& plan);
  Result<void> KeepAuth(const Context& ctx, const Observed& seen, const AuthWork& work);
  // True if every runtime that is ready works by the table.
  bool SendPeers(const Context& ctx, const Observed& seen, const runtime::PeerTable& wanted);
  // True if the plan's steps need not wait.
  bool Purge(const Context& ctx, const Observed& seen, Plan& plan);
  void Cancel(const Context& ctx, const Observed& seen, const std::vector<std::string>& jobs);
  // A job that the runtime refuses has failed: the plan's status says so afterwards.
  void Post(const Context& ctx, const Observed& seen, Plan& plan);
  // The server will not take what we make: tells the user, and the queue's back-off keeps us from
  // asking often.
  void Refused(const Context& ctx, const Observed& seen, const Plan& plan, const Status& why);
  Result<void> WriteStatus(const Context& ctx, const api::SampleSet& set,
                           const api::SampleSetStatus& status, bool unchanged_only);
  // True if only figures differ that move by themselves, and they were told a short time ago.
  bool MayWait(const kube::ObjectKey& key, const api::SampleSetStatus& before,
               const api::SampleSetStatus& after);
  void Tell(const api::SampleSet& set, const ChangeNote& note);
  void Forget(const kube::ObjectKey& key);

  const Settings settings_;
  const Parts parts_;
  Mutex mutex_;
  // The tables that were sent; a restart sends them again, with a higher generation.
  std::unordered_map<kube::ObjectKey, runtime::PeerTable> tables_ GUARDED_BY(mutex_);
  std::unordered_map<kube::ObjectKey, std::chrono::steady_clock::time_point> written_
      GUARDED_BY(mutex_);
};

}  // namespace paddleop::controllers::sampleset
