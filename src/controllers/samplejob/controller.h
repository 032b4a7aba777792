#pragma once

#include <memory>

#include "base/log.h"
#include "base/metrics.h"
#include "controllers/common/caches.h"
#include "kube/manager/manager.h"
#include "runtime/client/runtime_client.h"

namespace paddleop::controllers::samplejob {

struct ControllerSettings {
  std::size_t workers = 8;            // jobs reconciled at a time
  std::size_t parallel_requests = 8;  // of all of them

  // kInvalid names the field and what it may be.
  Result<void> Validate() const;
};

// The SampleJob controller: its queue and reconciler. Add it to a manager, then run that.
class DataJobController {
 public:
  // What is borrowed lives until the manager's Run() has returned.
  static Result<std::unique_ptr<DataJobController>> Create(
      ControllerSettings settings, kube::ClusterClient& client, Caches& caches, const Logger& log,
      MetricsRegistry& metrics, Clock& clock = Clock::System(),
      runtime::RuntimeDialer dial = runtime::OpenRuntimeClient);
  ~DataJobController();

  void AddTo(kube::Manager& manager);

 private:
  struct State;
  explicit DataJobController(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::controllers::samplejob
