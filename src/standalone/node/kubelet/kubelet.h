#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kube/cache/informer.h"
#include "kube/manager/manager.h"
#include "standalone/node/kubelet/hosts.h"
#include "standalone/node/kubelet/node_registration.h"
#include "standalone/node/kubelet/pod_runner.h"

namespace paddleop::standalone::node {

struct KubeletOptions {
  std::string data_dir;
  std::vector<std::string> nodes;
  // A program whose main() calls ShimMain; empty: the running one.
  std::string program;
  NetworkMode network = NetworkMode::kLoopback;
  bool namespaces = false;
  Environment base_environment;  // what an image would bring: PATH and the like
  RestartDelays delays;
  std::string version;
  // As in VolumesOptions.
  std::string logical_root;
  ClaimMounter* claims = nullptr;  // borrowed; null: pods with claims are refused
};

// Runs the pods of its nodes as processes of this machine.
class Kubelet final : public kube::Reconciler {
 public:
  static Result<std::unique_ptr<Kubelet>> Create(const Context& ctx, KubeletOptions options,
                                                 kube::ClusterClient& client,
                                                 kube::Informer<PodSpec>& pods, const Logger& log,
                                                 MetricsRegistry& metrics,
                                                 Clock& clock = Clock::System());
  ~Kubelet() override;

  // Its informers (but not that of pods), controllers and services.
  void AddTo(kube::Manager& manager);
  Result<kube::Requeue> Reconcile(const Context& ctx, const kube::ObjectKey& key) override;

  // Ends all processes and takes away networks and mounts; when the manager has stopped. What pods
  // became is told to the cluster by the next agent.
  void StopPods(const Context& ctx);

  // Before AddTo: where logs and exec are served.
  void SetEndpoint(std::uint16_t port) { registration_->SetEndpoint(port); }
  // A volume of these pods (by UID) had to be mounted again; see MounterOptions.
  void MountReplaced(const std::vector<std::string>& pods, const Result<void>& mounted);
  // The UID of a pod of this agent, or nullopt.
  std::optional<std::string> FindPod(const kube::ObjectKey& key) const;

  const std::string& host_ip() const { return network_->host_ip(); }

 private:
  struct Entry {
    std::unique_ptr<PodRunner> runner;
    std::shared_ptr<const PodSpec> pod;
  };
  struct ConfigMapSeen {};
  class ApiConfig;
  class HostsWriter;

  Kubelet(KubeletOptions options, kube::ClusterClient& client, kube::Informer<PodSpec>& pods,
          const Logger& log, MetricsRegistry& metrics, Clock& clock);
  Result<void> Open(const Context& ctx);
  void WatchCluster();
  bool IsMine(const std::string& node) const;
  Entry* Find(const kube::ObjectKey& key);
  Entry& Adopt(const kube::ObjectKey& key, std::shared_ptr<const PodSpec> pod);
  // Pods that were here once and are not in the cluster any more.
  void FindOrphans();
  Result<kube::Requeue> EndGone(const Context& ctx, const kube::ObjectKey& key, Entry& entry);
  Result<kube::Requeue> EndDeleted(const Context& ctx, const std::shared_ptr<const PodSpec>& pod,
                                   Entry* entry);
  Result<void> Report(const Context& ctx, const PodSpec& pod, PodRunner& runner);

  const KubeletOptions options_;
  kube::ClusterClient& client_;
  kube::Informer<PodSpec>& pods_;
  const Logger& log_;
  Clock& clock_;
  kube::Informer<api::Service> services_;
  kube::Informer<ConfigMapSeen> config_maps_;
  kube::EventRecorder events_;
  std::unique_ptr<PodNetwork> network_;
  std::unique_ptr<ApiConfig> config_;
  std::unique_ptr<Volumes> volumes_;
  std::unique_ptr<NodeRegistration> registration_;
  std::unique_ptr<HostsWriter> hosts_writer_;
  std::unique_ptr<PodHouse> house_;
  kube::Controller hosts_;
  kube::Controller controller_;
  // After the controllers, which their threads wake.
  std::once_flag orphans_;
  mutable Mutex mutex_;  // of the map; an entry belongs to the reconcile of its key
  std::map<kube::ObjectKey, Entry> entries_ GUARDED_BY(mutex_);
  std::unique_ptr<ExitWatcher> exits_;
};

}  // namespace paddleop::standalone::node
