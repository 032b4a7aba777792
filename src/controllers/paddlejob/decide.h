#pragma once

#include "controllers/paddlejob/plan.h"

namespace paddleop::controllers::paddlejob {

// What to do about a job, from what was seen of it. Pure: the same input gives the same plan, and
// the plan of a world in which the last plan was carried out is empty.
//
// A gang is one start of all pods of a job. The ConfigMap with everybody's address is the gate: no
// container starts before it exists. Addresses of a gang never change; when a pod is lost, fails
// within backoffLimit, or the job is scaled, the next gang begins: its number is stored first, then
// the ConfigMap goes (a stale one would open the gate for new pods), then the pods. Elastic jobs
// have no ConfigMap, and pods come and go.
Plan Decide(const Settings& settings, const Observed& seen);

// Condition types and reasons, which programs may rely on.
namespace condition {
inline constexpr char kAccepted[] = "Accepted";    // the spec can be carried out
inline constexpr char kDataReady[] = "DataReady";  // the SampleSet is as waitFor wants it; latched
inline constexpr char kRunning[] = "Running";      // the reason says what is missing
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kCompleted[] = "Completed";
inline constexpr char kFailed[] = "Failed";
}  // namespace condition

}  // namespace paddleop::controllers::paddlejob
