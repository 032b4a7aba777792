// The objects a job is made of, as JSON ready to be created.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "controllers/paddlejob/environment.h"
#include "controllers/paddlejob/names.h"
#include "controllers/paddlejob/plan.h"

namespace paddleop::controllers::paddlejob {

enum class Affinity { kNone, kPreferred, kRequired };

// How a worker is tied to the node that caches its partition.
struct DataPlacement {
  Affinity affinity = Affinity::kNone;
  std::string label;  // node label
  std::string value;
};

// A pod: its template with name, labels, environment and whatever the job's settings add.
// Everything else in the template stays as it is. kInvalid if the template is no pod template.
Result<CreateObject> BuildPod(const Settings& settings, const api::PaddleJob& job, Place place,
                              std::int32_t gang, const DataPlacement& data);

CreateObject BuildService(const api::PaddleJob& job, Place place);
CreateObject BuildConfigMap(const api::PaddleJob& job, std::int32_t gang,
                            const api::StringMap& data, const std::string& members);
// Volcano's gang: as many members and resources as the job has, unless schedulingPolicy says
// otherwise.
Result<CreateObject> BuildPodGroup(const api::PaddleJob& job);
std::int32_t MinMember(const api::PaddleJob& job);

// Does any role's template ask for a scheduler other than volcano?
bool NamesOtherScheduler(const api::PaddleJob& job);

// "ps=2,worker=4": what the ConfigMap was made for.
std::string ReplicasText(const api::PaddleJobSpec& spec);

}  // namespace paddleop::controllers::paddlejob
