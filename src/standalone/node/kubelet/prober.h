#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/context.h"
#include "standalone/node/kubelet/pod_spec.h"
#include "standalone/node/process/process_files.h"

namespace paddleop::standalone::node {

// Where and what to probe.
struct ProbeTarget {
  std::string ip;
  std::vector<std::pair<std::string, int>> ports;  // of the container, by name
  ProcessState process;
  bool namespaces = false;
  std::string program;  // that can run a command in the container
};

// One attempt. An error says why the container does not do well.
Result<void> RunProbe(const Context& ctx, const Probe& probe, const ProbeTarget& target);

// Probes a container again and again on a thread of its own, until it is destroyed.
class Prober {
 public:
  // `changed` is called, on that thread, when the verdict changes.
  Prober(Probe probe, ProbeTarget target, std::function<void()> changed);
  ~Prober();

  enum class Verdict : std::uint8_t { kUnknown, kGood, kBad };
  Verdict verdict() const { return verdict_; }
  // Why the last bad verdict.
  std::string reason() const;

 private:
  struct State;
  void Run(const std::stop_token& stop);

  const Probe probe_;
  const ProbeTarget target_;
  const std::function<void()> changed_;
  std::atomic<Verdict> verdict_ = Verdict::kUnknown;
  std::unique_ptr<State> state_;
  std::jthread thread_;
};

}  // namespace paddleop::standalone::node
