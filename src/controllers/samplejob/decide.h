#pragma once

#include "controllers/samplejob/plan.h"

namespace paddleop::controllers::samplejob {

// What to do next about a job or a schedule. Pure: the same seen twice is the same plan twice.
Plan Decide(const Observed& seen);

// schedule.cc: the part of Decide that is about jobs with a schedule; they run nothing themselves.
Plan DecideSchedule(const Observed& seen);

}  // namespace paddleop::controllers::samplejob
