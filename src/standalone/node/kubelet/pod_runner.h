#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "kube/manager/events.h"
#include "standalone/node/kubelet/container_runner.h"
#include "standalone/node/kubelet/environment.h"
#include "standalone/node/kubelet/network.h"
#include "standalone/node/kubelet/pod_record.h"
#include "standalone/node/kubelet/pod_spec.h"
#include "standalone/node/kubelet/pod_status.h"
#include "standalone/node/kubelet/prober.h"
#include "standalone/node/kubelet/volumes.h"
#include "standalone/node/process/exit_watcher.h"

namespace paddleop::standalone::node {

// What all pods of an agent share. The references outlive the pods.
struct PodHouse {
  std::string data_dir;
  std::string program;      // can be a shim
  bool namespaces = false;  // own mounts, PIDs and host names
  Environment base_environment;
  RestartDelays delays;
  PodNetwork& network;
  Volumes& volumes;
  ConfigSource& config;
  ExitWatcher& exits;
  kube::EventRecorder& events;
  const Logger& log;
  Clock& clock;
  // Something happened to this pod: sync it soon. Called from any thread.
  std::function<void(const api::ObjectKey&)> wake;
  // The content of /etc/hosts for a pod with this address.
  std::function<std::string(const PodSpec&, const std::string& ip)> hosts;

  std::string PodDirectory(const std::string& uid) const { return data_dir + "/pods/" + uid; }
};

// One pod on this machine: its network, volumes and containers. What it does is decided anew at
// each Sync from what is there, so a crash anywhere between two steps is harmless. Not thread-safe.
class PodRunner {
 public:
  // Takes up what an earlier agent left of this pod.
  PodRunner(PodHouse& house, const PodSpec& pod);

  // Brings the pod nearer to what its spec asks for. The result says when to look again at the
  // latest; nullopt: when woken.
  Result<std::optional<Clock::Duration>> Sync(const Context& ctx, const PodSpec& pod);

  // Ends the containers, by force after `deadline`. True when all have ended.
  bool Terminate(const Context& ctx, const PodSpec& pod, WallTime deadline);
  // Takes network and mounts away; after Terminate. The files stay, for the next agent.
  void Release(const Context& ctx);
  // Takes the files away too.
  void Remove(const Context& ctx);

  const PodView& view();
  const PodRecord& record() const { return record_; }

 private:
  void WriteHosts(const PodSpec& pod);
  struct Probes {
    int run = 0;  // which run of the container they watch
    std::unique_ptr<Prober> startup;
    std::unique_ptr<Prober> readiness;
    std::unique_ptr<Prober> liveness;
  };
  using Containers = std::vector<std::unique_ptr<ContainerRunner>>;

  Result<void> EnsureNetwork(const Context& ctx, const PodSpec& pod);
  // False if they are not there yet; the containers say so.
  bool EnsureVolumes(const Context& ctx, const PodSpec& pod);
  // Running containers get what is mounted at their volumes now.
  void RefreshMounts(const Context& ctx, const PodSpec& pod);
  void RefreshMounts(const Context& ctx, const ContainerSpec& spec,
                     const ContainerRunner& container, const std::vector<std::string>& paths);
  // False while what is mounted for the container is dead; it waits then.
  bool MountsAlive(ContainerRunner& container);
  // False while one is not done.
  bool RunInitContainers(const Context& ctx, const PodSpec& pod);
  void RunContainer(const Context& ctx, const PodSpec& pod, const ContainerSpec& spec,
                    ContainerRunner& container, RestartPolicy policy);
  void StartContainer(const Context& ctx, const PodSpec& pod, const ContainerSpec& spec,
                      ContainerRunner& container);
  Result<ShimSpec> ShimFor(const Context& ctx, const PodSpec& pod, const ContainerSpec& spec);
  void ProbeContainer(const PodSpec& pod, const ContainerSpec& spec, ContainerRunner& container);
  void CheckDeadline(const PodSpec& pod);
  void ReleaseFinished(const Context& ctx, const PodSpec& pod);
  void WatchExit(const ContainerRunner& container);
  void LookAgain(Clock::Duration after);
  void Tell(kube::EventType type, std::string reason, std::string message);
  NodeFacts Facts(const PodSpec& pod) const;
  void ForEach(const std::function<void(ContainerRunner&)>& call);

  PodHouse& house_;
  const std::string directory_;
  PodRecord record_;
  PodAddress address_;
  bool network_ready_ = false;
  bool volumes_ready_ = false;
  bool released_ = false;
  HostVolumes volumes_;
  WallTime volumes_checked_{};
  Containers init_;
  Containers containers_;
  std::map<std::string, Probes> probes_;
  std::map<std::string, WallTime> kill_at_;  // containers that were asked to end
  bool terminating_ = false;
  std::optional<WallTime> deadline_;  // of containers that outlive their pod's end
  std::optional<Clock::Duration> again_;
  PodView view_;
};

}  // namespace paddleop::standalone::node
