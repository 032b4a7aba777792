#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "base/thread_pool.h"
#include "controllers/common/caches.h"
#include "kube/manager/events.h"
#include "kube/manager/manager.h"

namespace paddleop::controllers::paddlejob {

struct ControllerSettings {
  bool volcano = false;
  std::vector<std::string> etcd_servers;
  int first_port = 35000;  // of Host jobs
  int last_port = 65000;
  std::size_t workers = 6;           // jobs reconciled at a time
  std::size_t parallel_writes = 10;  // requests of all of them

  // kInvalid names the field and what it may be.
  Result<void> Validate() const;
};

// The PaddleJob controller: its informers, queue and reconciler. Add it to a manager, then run
// that.
class JobController {
 public:
  // What is borrowed lives until the manager's Run() has returned.
  static Result<std::unique_ptr<JobController>> Create(const ControllerSettings& settings,
                                                       kube::ClusterClient& client, Caches& caches,
                                                       const Logger& log, MetricsRegistry& metrics,
                                                       Clock& clock = Clock::System());
  ~JobController();

  void AddTo(kube::Manager& manager);

 private:
  struct State;
  explicit JobController(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::controllers::paddlejob
