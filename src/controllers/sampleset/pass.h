// One pass over one set, in parts: each file of this room that includes this does one of them.
#pragma once

#include <string>
#include <string_view>

#include "controllers/sampleset/plan.h"

namespace paddleop::controllers::sampleset {

struct Pass {
  Pass(const Settings& given, const Observed& observed)
      : settings(given), seen(observed), set(*observed.set) {
    plan.status = set.status;
  }

  const Settings& settings;
  const Observed& seen;
  const api::SampleSet& set;
  Plan plan;
  bool resized = false;  // the StatefulSet gets another number of replicas in this pass

  // Sets a condition. A warning event says the same when the reason is new.
  void Say(const char* type, bool fine, std::string reason, std::string message,
           bool event_if_new = false);
  bool Holds(const char* type) const { return api::IsConditionTrue(plan.status.conditions, type); }
  // Seconds since the condition last changed its status; 0 if it is not there.
  std::chrono::seconds Since(const char* type) const;
  std::string_view ReasonOf(const char* type) const;

  std::int32_t Partitions() const { return set.spec.partitions; }
  // Runtimes 0..count-1 whose pods are ready.
  std::int32_t ReadyRuntimes(std::int32_t count) const;
  const RuntimeSeen* Runtime(std::int32_t index) const;
  bool RuntimeZeroReady() const;
  // A node with runtime pods that is gone, or does not answer.
  bool NodeLost(const std::string& name) const;
};

// Reason of a Warmed that is False: a warm-up has to begin, whatever was begun before.
inline constexpr char kCacheLost[] = "CacheLost";

// Pods that serve: running on a node, not on their way out.
bool IsServing(const RuntimeSeen& runtime);

// keep_children.cc: everything the set is made of exists as it should.
void KeepChildren(Pass& pass);
// nodes.cc: labels of nodes, and pods whose node is lost.
void KeepNodes(Pass& pass);
// sync.cc: the first import and those after the sources changed. True when the data is there.
bool KeepSynced(Pass& pass);
// warmup.cc: the cache is laid out for `partitions`. True when it is, or need not be.
bool KeepWarm(Pass& pass, std::int32_t partitions);
// cache_status.cc: what the runtimes report.
void ReportCache(Pass& pass);
// peers.cc
void KeepPeers(Pass& pass);
// deletion.cc
void Remove(Pass& pass);

}  // namespace paddleop::controllers::sampleset
