#pragma once

#include "controllers/sampleset/plan.h"

namespace paddleop::controllers::sampleset {

// What to do next about a set. Pure: the same seen twice is the same plan twice.
Plan Decide(const Settings& settings, const Observed& seen);

}  // namespace paddleop::controllers::sampleset
