// What a SampleJob asks the runtimes for. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/batch/sample_job.h"
#include "api/batch/sample_set.h"
#include "controllers/common/secrets.h"
#include "runtime/protocol/job.h"

namespace paddleop::controllers::samplejob {

// Everything about the spec that can be known without the cluster: type, options, paths, schedule.
// kInvalid names the field and says what it may be.
Result<void> CheckSpec(const api::SampleJobSpec& spec);

// Where a sync reads from: its own source, or else those of the set.
std::vector<api::SampleSource> SourcesOf(const api::SampleJobSpec& job,
                                         const api::SampleSetSpec& set);

// The request without its name. `secrets` are those of SourcesOf(), in order. kInvalid names the
// field.
Result<runtime::JobRequest> MakeRequest(const api::SampleJobSpec& job, const api::SampleSet& set,
                                        const std::vector<SecretView>& secrets);

// The UUID of one attempt: the same job, options and attempt give the same one.
std::string JobName(const api::SampleJob& job, const runtime::JobRequest& request,
                    std::int32_t attempt);

// "Sync", "Warmup", "Clear", "Rmr": as event reasons have it.
std::string TypeWord(const api::SampleJobSpec& spec);

}  // namespace paddleop::controllers::samplejob
