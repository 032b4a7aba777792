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

}  // namespace paddleop::controllers::paddlejob
