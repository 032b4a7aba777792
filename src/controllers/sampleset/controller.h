#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "controllers/common/caches.h"
#include "kube/manager/manager.h"
#include "runtime/client/runtime_client.h"

namespace paddleop::controllers::sampleset {

struct ControllerSettings {
  std::string runtime_image = "paddlepaddle/samplefs:v0.5.0";
  std::string mount_root = "/mnt";  // where runtime pods of driver juicefs mount the volume
  // Directories of the nodes that sources of the form file:///... may lie in.
  std::vector<std::string> source_dirs = {};
  std::size_t workers = 8;             // sets reconciled at a time
  std::size_t parallel_requests = 24;  // to API server and runtimes, of all of them

  // kInvalid names the field and what it may be.
  Result<void> Validate() const;
};

// The SampleSet controller: its informers, queue and reconciler. Add it to a manager, then run
// that.
class SetController {
 public:
  // What is borrowed lives until the manager's Run() has returned.
  static Result<std::unique_ptr<SetController>> Create(
      const ControllerSettings& settings, kube::ClusterClient& client, Caches& caches,
      const Logger& log, MetricsRegistry& metrics, Clock& clock = Clock::System(),
      runtime::RuntimeDialer dial = runtime::OpenRuntimeClient);
  ~SetController();

  void AddTo(kube::Manager& manager);

 private:
  struct State;
  explicit SetController(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::controllers::sampleset
