// What the containers of a job find in their environment: all that the launchers of Paddle 2.x
// and 3.x and its role makers read. docs/paddlejob.md lists it for users.
#pragma once

#include <string>
#include <vector>

#include "api/batch/paddle_job.h"
#include "api/meta/json.h"
#include "controllers/paddlejob/names.h"
#include "controllers/paddlejob/plan.h"

namespace paddleop::controllers::paddlejob {

struct Endpoint {
  std::string host;
  int port = kPort;

  std::string ToString() const { return host + ":" + std::to_string(port); }
};

// Where the pods of each role are reached, by index.
struct Addresses {
  std::vector<Endpoint> ps;
  std::vector<Endpoint> worker;
  std::vector<Endpoint> heter;

  std::vector<Endpoint>& Of(Role role) {
    if (role == Role::kPs) return ps;
    return role == Role::kWorker ? worker : heter;
  }
  const std::vector<Endpoint>& Of(Role role) const {
    return const_cast<Addresses*>(this)->Of(role);
  }
};

// What all pods share: the data of the ConfigMap. In Host mode also each pod's own port, under
// PortKey().
api::StringMap SharedEnvironment(const api::PaddleJob& job, const Addresses& addresses);

// The key of a pod's own port in the ConfigMap of a Host job.
std::string PortKey(Role role, std::int32_t index);

// What differs per pod, as entries of a container's `env`, appended to those of `container` (the
// template's first container). Ours replace the template's variables of the same name, except where
// only a hint is given (backend, rank) and the user knows better.
api::Json PodEnvironment(const Settings& settings, const api::PaddleJob& job, Place place,
                         const api::Json& container);

// Does any container of the template ask for a device (nvidia.com/gpu and the like)?
bool AsksForAccelerator(const api::Json& pod_spec);

}  // namespace paddleop::controllers::paddlejob
