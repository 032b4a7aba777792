// The pods of a job, sorted out.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controllers/paddlejob/names.h"
#include "controllers/paddlejob/plan.h"

namespace paddleop::controllers::paddlejob {

using PodPointer = std::shared_ptr<const api::Pod>;

struct Census {
  std::map<Place, PodPointer> members;  // of this gang, wanted, not being deleted
  std::vector<PodPointer> surplus;      // of this gang, but the role asks for fewer pods
  std::vector<PodPointer> stale;        // of another gang
  std::set<Place> taken;                // names in use, also by pods that are going away
  std::vector<std::pair<Place, PodPointer>> failed;  // members
  std::int32_t wanted = 0;

  bool Complete() const { return static_cast<std::int32_t>(members.size()) == wanted; }
};

Census TakeCensus(const Observed& seen);

// Counters and references of one role. Pods that do not exist yet count as pending.
api::JobRoleStatus CountRole(const Census& census, const api::PaddleJob& job, Role role);

// All workers are done; where there are none, all pods. Parameter servers never end by themselves.
bool HasSucceeded(const Census& census, const api::PaddleJob& job);

// Pending, Starting or Running; `before` where the counters say nothing new.
std::string ActivePhase(const api::PaddleJob& job, const api::PaddleJobStatus& counted,
                        const std::string& before);

// "j-worker-1: container paddle exited with 137 (OOMKilled)"
std::string WhyFailed(const api::Pod& pod);

// A short text that is the same as long as the members are the same pods.
std::string MembersDigest(const Census& census);

}  // namespace paddleop::controllers::paddlejob
