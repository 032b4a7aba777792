// How one pass over a job turns what was seen into a plan; decide.h calls it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "controllers/paddlejob/census.h"
#include "controllers/paddlejob/plan.h"

namespace paddleop::controllers::paddlejob {

// One pass over one job. Each method does its part of the plan; those that return bool say whether
// the pass goes on.
class Pass {
 public:
  Pass(const Settings& settings, const Observed& seen);

  Plan Run();

 private:
  using seconds = std::chrono::seconds;

  // --- small things
  void SetCondition(const char* type, bool value, std::string reason, std::string message);
  void NotRunning(std::string_view new_phase, std::string reason, std::string message);
  template <class T>
  static DeleteObject DeleteOf(const T& object) {
    return {T::kType, object.metadata.Key(), object.metadata.uid};
  }
  static void DeletePods(const std::vector<PodPointer>& pods, ChangeStep& step);
  bool OwnsPodGroup() const;
  void AddStep(ChangeStep step);
  // A problem that only a change of the job or of the cluster solves. The event comes once per
  // message.
  void Reject(std::string reason, std::string message);

  // --- the end of a job
  Plan Deleted();
  void CleanUp();
  void ExpireAfterTtl();
  void End(std::string_view end_phase, const char* type, std::string reason,
           const std::string& message);
  void Fail(std::string reason, const std::string& message);
  bool Finish();
  void Complete();
  // An elastic job goes on with the others while a failed worker is replaced.
  bool ReplaceFailed();

  // --- what keeps a job from running
  bool Accept(bool first_look);
  void CountPods();
  bool Suspend();
  // The job is active from its creation, from when its data was ready, or from when it was resumed.
  bool MissDeadline();

  // --- gangs
  // First the ConfigMap, then the pods.
  void RemoveGang(const std::vector<PodPointer>& pods, bool with_pod_group);
  void BeginGang(std::string_view new_phase, std::string reason, std::string message, bool warning);
  seconds RestartDelay() const;
  bool NextGang();
  std::string WhoIsMissing() const;
  bool AddressesMoved() const;

  // --- going forward
  void Advance();
  void DropSurplusServices(ChangeStep& step);
  bool RestartDelayOver();
  // With Volcano no pod is created before the whole gang may be.
  bool QueueAdmits();
  bool CreateMissing();
  // The ConfigMap is what the containers of all pods wait for.
  bool OpenGate();
  void StorePorts();
  void Judge();

  const Settings& settings_;
  const Observed& seen_;
  const api::PaddleJob& job_;
  const Census census_;
  Plan plan_;
};

}  // namespace paddleop::controllers::paddlejob
