// The job and its SampleSet: when pods may start, and where each worker should run.
#pragma once

#include "controllers/paddlejob/census.h"
#include "controllers/paddlejob/plan.h"
#include "controllers/paddlejob/pods.h"

namespace paddleop::controllers::paddlejob {

// True once the data is as sampleSetRef.waitFor wants it; also sets the condition DataReady.
bool DataIsReady(const Observed& seen, Plan& plan);

// How to tie a worker to its partition. Required falls back to preferred when the node is not
// ready.
DataPlacement PlaceWorker(const Observed& seen, std::int32_t index);

// Workers that stay unschedulable on the required node: their pods are to be made again with
// preferred affinity. Sets recheck for those that may yet be placed.
std::vector<PodPointer> RelaxAffinity(const Observed& seen, const Census& census, Plan& plan);

}  // namespace paddleop::controllers::paddlejob
