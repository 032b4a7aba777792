#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "standalone/node/kubelet/pod_spec.h"
#include "standalone/node/kubelet/pod_status.h"
#include "standalone/node/process/container_process.h"

namespace paddleop::standalone::node {

struct RestartDelays {
  std::chrono::milliseconds first{10'000};  // the first restart comes at once
  std::chrono::milliseconds most{300'000};
  std::chrono::milliseconds forgiven_after{600'000};  // a run this long starts the series anew
};

// One container of a pod through all its runs. Everything it knows is on disk too, one directory
// per run, so that an agent that starts later goes on where this one stopped. Not thread-safe.
class ContainerRunner {
 public:
  // `directory` holds the runs; those that are there are taken up.
  ContainerRunner(const ContainerSpec& spec, std::string pod_uid, std::string directory,
                  RestartDelays delays);

  // Looks whether the run has ended.
  void Observe();
  // Starts the next run. kInvalid: the command could not be started; that is a run that ended.
  Result<void> Start(const Context& ctx, const std::string& program, ShimSpec spec);
  void Terminate();
  void Kill();

  bool running() const { return view_.state == ContainerView::State::kRunning; }
  bool ended() const { return view_.state == ContainerView::State::kTerminated; }
  bool ever_started() const { return run_ > 0; }
  // Should it run again by the pod's policy?
  bool WantsRestart(RestartPolicy policy) const;
  // When the back-off lets it; nullopt: at once.
  std::optional<WallTime> RestartAt() const;
  // Why it does not run yet.
  void SetWaiting(std::string reason, std::string message);

  ContainerView& view() { return view_; }
  const ContainerView& view() const { return view_; }
  const std::optional<ProcessState>& process() const { return process_; }
  std::string RunDirectory() const;
  int runs() const { return run_; }
  const std::string& pod_uid() const { return pod_uid_; }

 private:
  void Load();
  Termination TerminationOf(const ProcessExit& exit,
                            const std::optional<ProcessState>& state) const;

  const std::string pod_uid_;
  const std::string directory_;
  const RestartDelays delays_;
  int run_ = 0;       // the number of the last one; 0: none yet
  int failures_ = 0;  // restarts in a row
  std::optional<ProcessState> process_;
  ContainerView view_;
};

}  // namespace paddleop::standalone::node
