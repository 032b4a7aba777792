#include "standalone/node/kubelet/kubelet.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/backoff.h"
#include "base/crypto.h"
#include "base/posix.h"

namespace paddleop::standalone::node {
namespace {

namespace fs = std::filesystem;
using kube::ObjectKey;
using kube::Requeue;
using std::chrono::seconds;

// The hosts files are written by one controller that has only this key.
const ObjectKey kAllHosts{"", "hosts"};
constexpr seconds kStopGrace{10};

template <class T>
Result<T> GetObject(const Context& ctx, kube::ClusterClient& client, const ObjectKey& key) {
  ASSIGN_OR_RETURN(const auto raw, client.Get(ctx, T::kType, key));
  ASSIGN_OR_RETURN(const api::Json json, api::ParseJson(raw.json));
  return T::FromJson(json);
}

// What is known of a pod that the cluster has forgotten: where its processes are.
std::shared_ptr<const PodSpec> SpecOfOrphan(const PodRecord& record, const std::string& directory) {
  auto spec = std::make_shared<PodSpec>();
  spec->metadata.name = record.key.name;
  spec->metadata.ns = record.key.ns;
  spec->metadata.uid = record.uid;
  spec->node_name = record.node;
  spec->host_network = record.host_network;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory + "/containers", error)) {
    ContainerSpec container;
    container.name = entry.path().filename().string();
    spec->containers.push_back(std::move(container));
  }
  return spec;
}

}  // namespace

class Kubelet::ApiConfig final : public ConfigSource {
 public:
  explicit ApiConfig(kube::ClusterClient& client) : client_(client) {}
  Result<api::ConfigMap> GetConfigMap(const Context& ctx, const ObjectKey& key) override {
    return GetObject<api::ConfigMap>(ctx, client_, key);
  }
  Result<api::SecretObject> GetSecret(const Context& ctx, const ObjectKey& key) override {
    return GetObject<api::SecretObject>(ctx, client_, key);
  }

 private:
  kube::ClusterClient& client_;
};

// Brings the hosts files of all pods up to date.
class Kubelet::HostsWriter final : public kube::Reconciler {
 public:
  explicit HostsWriter(Kubelet& kubelet) : kubelet_(kubelet) {}
  Result<Requeue> Reconcile(const Context& /*ctx*/, const ObjectKey& /*key*/) override {
    const auto services = kubelet_.services_.List();
    const auto pods = kubelet_.pods_.List();
    for (const auto& pod : pods) {
      if (!kubelet_.IsMine(pod->node_name) || pod->pod_ip.empty() || pod->Finished()) continue;
      const std::string path = kubelet_.house_->PodDirectory(pod->metadata.uid) + "/hosts";
      const auto old = ReadFile(path);
      const std::string text = HostsFile(*pod, pod->pod_ip, services, pods);
      if (old && *old != text) WriteHostsFile(path, text);
    }
    return Requeue{};
  }

 private:
  Kubelet& kubelet_;
};

Result<std::unique_ptr<Kubelet>> Kubelet::Create(const Context& ctx, KubeletOptions options,
                                                 kube::ClusterClient& client,
                                                 kube::Informer<PodSpec>& pods, const Logger& log,
                                                 MetricsRegistry& metrics, Clock& clock) {
  if (options.program.empty()) options.program = "/proc/self/exe";
  std::unique_ptr<Kubelet> kubelet(
      new Kubelet(std::move(options), client, pods, log, metrics, clock));
  RETURN_IF_ERROR(kubelet->Open(ctx));
  kubelet->WatchCluster();
  return kubelet;
}

Kubelet::Kubelet(KubeletOptions options, kube::ClusterClient& client, kube::Informer<PodSpec>& pods,
                 const Logger& log, MetricsRegistry& metrics, Clock& clock)
    : options_(std::move(options)),
      client_(client),
      pods_(pods),
      log_(log),
      clock_(clock),
      services_({.resource = kube::kServices}, api::ParseAs<api::Service>, client, log, metrics,
                clock),
      config_maps_(
          {.resource = kube::kConfigMaps},
          [](std::string_view) -> Result<ConfigMapSeen> { return ConfigMapSeen{}; }, client, log,
          metrics, clock),
      events_({.component = "kubelet", .instance = options_.nodes.front(), .burst = 100}, client,
              log, metrics, clock),
      hosts_writer_(std::make_unique<HostsWriter>(*this)),
      hosts_({.name = "node-hosts", .workers = 1}, *hosts_writer_, log, metrics, clock),
      controller_({.name = "node-pods", .workers = 8, .reconcile_timeout = seconds(180)}, *this,
                  log, metrics, clock) {}

Kubelet::~Kubelet() = default;

Result<void> Kubelet::Open(const Context& ctx) {
  RETURN_IF_ERROR(MakeDirectories(options_.data_dir + "/pods", 0711));
  ASSIGN_OR_RETURN(exits_, ExitWatcher::Start());
  PodNetworkOptions network{.mode = options_.network,
                            .directory = options_.data_dir + "/networks",
                            .name = HexEncode(Sha256(options_.data_dir)).substr(0, 8)};
  ASSIGN_OR_RETURN(network_, PodNetwork::Create(ctx, std::move(network)));
  config_ = std::make_unique<ApiConfig>(client_);
  volumes_ = std::make_unique<Volumes>(
      VolumesOptions{.may_mount = options_.namespaces, .logical_root = options_.logical_root},
      *config_, options_.claims);
  registration_ =
      std::make_unique<NodeRegistration>(NodeRegistrationOptions{.nodes = options_.nodes,
                                                                 .address = network_->host_ip(),
                                                                 .version = options_.version,
                                                                 .data_dir = options_.data_dir},
                                         client_, log_, clock_);
  house_ = std::make_unique<PodHouse>(
      PodHouse{.data_dir = options_.data_dir,
               .program = options_.program,
               .namespaces = options_.namespaces,
               .base_environment = options_.base_environment,
               .delays = options_.delays,
               .network = *network_,
               .volumes = *volumes_,
               .config = *config_,
               .exits = *exits_,
               .events = events_,
               .log = log_,
               .clock = clock_,
               .wake = [this](const ObjectKey& key) { controller_.Add(key); },
               .hosts =
                   [this](const PodSpec& pod, const std::string& ip) {
                     return HostsFile(pod, ip, services_.List(), pods_.List());
                   }});
  return {};
}

void Kubelet::WatchCluster() {
  pods_.AddHandler([this](const kube::Change<PodSpec>& change) {
    const PodSpec& pod = change.after ? *change.after : *change.before;
    if (IsMine(pod.node_name) || (change.before && IsMine(change.before->node_name)))
      controller_.Add(change.key);
    if (!change.before || !change.after || change.before->pod_ip != change.after->pod_ip ||
        change.before->phase != change.after->phase) {
      hosts_.Add(kAllHosts);
    }
  });
  services_.AddHandler([this](const kube::Change<api::Service>&) { hosts_.Add(kAllHosts); });
  config_maps_.AddHandler([this](const kube::Change<ConfigMapSeen>& change) {
    if (change.before || !change.after) return;
    // A new ConfigMap may be the one that containers of this namespace wait for.
    for (const auto& pod : pods_.List(change.key.ns)) {
      if (IsMine(pod->node_name) && !pod->Finished()) controller_.Add(pod->Key());
    }
  });
}

void Kubelet::AddTo(kube::Manager& manager) {
  manager.Add(services_);
  manager.Add(config_maps_);
  manager.Add(events_);
  manager.Add(hosts_);
  manager.Add(controller_);
  manager.AddService("node-lease", [this](const Context& ctx) {
    std::call_once(orphans_, [this] { FindOrphans(); });
    Backoff backoff({.initial = std::chrono::milliseconds(200), .maximum = seconds(10)}, clock_);
    for (;;) {
      const auto registered = registration_->Register(ctx);
      if (registered) break;
      if (ctx.Stopped()) return;
      log_.Warn(ctx, "node not registered yet", {{"error", registered.error().message()}});
      if (!backoff.Sleep(ctx)) return;
    }
    log_.Info(ctx, "nodes registered", {{"nodes", options_.nodes.size()}});
    registration_->Run(ctx);
  });
}

bool Kubelet::IsMine(const std::string& node) const {
  return !node.empty() &&
         std::find(options_.nodes.begin(), options_.nodes.end(), node) != options_.nodes.end();
}

std::optional<std::string> Kubelet::FindPod(const ObjectKey& key) const {
  const auto pod = pods_.Get(key);
  if (!pod || !IsMine(pod->node_name)) return std::nullopt;
  return pod->metadata.uid;
}

void Kubelet::MountReplaced(const std::vector<std::string>& pods, const Result<void>& mounted) {
  for (const auto& pod : pods_.List()) {
    if (std::find(pods.begin(), pods.end(), pod->metadata.uid) == pods.end()) continue;
    if (!mounted) {
      events_.Record(kube::ReferenceTo(kube::kPods, pod->Key(), pod->metadata.uid),
                     kube::EventType::kWarning, "FailedMount",
                     "The mount process of a volume has ended, and another one could not be "
                     "started: " +
                         mounted.error().message());
    }
    controller_.Add(pod->Key());
  }
}

void Kubelet::FindOrphans() {
  for (const PodRecord& record : ReadRecords(options_.data_dir)) {
    const auto pod = pods_.Get(record.key);
    if (!pod || pod->metadata.uid != record.uid) {
      const auto spec = SpecOfOrphan(record, house_->PodDirectory(record.uid));
      Adopt(record.key, spec);
    }
    controller_.Add(record.key);
  }
}

Kubelet::Entry* Kubelet::Find(const ObjectKey& key) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

Kubelet::Entry& Kubelet::Adopt(const ObjectKey& key, std::shared_ptr<const PodSpec> pod) {
  auto runner = std::make_unique<PodRunner>(*house_, *pod);
  const MutexLock lock(mutex_);
  Entry& entry = entries_[key];
  if (!entry.runner) entry = {std::move(runner), std::move(pod)};
  return entry;
}

Result<Requeue> Kubelet::Reconcile(const Context& ctx, const ObjectKey& key) {
  // Before the first pod of a name that an earlier one may still use.
  std::call_once(orphans_, [this] { FindOrphans(); });
  const auto pod = pods_.Get(key);
  Entry* entry = Find(key);
  if (entry != nullptr && (!pod || pod->metadata.uid != entry->pod->metadata.uid)) {
    auto ended = EndGone(ctx, key, *entry);
    if (!ended || ended->after || !pod) return ended;
    entry = nullptr;
  }
  if (!pod || !IsMine(pod->node_name)) return Requeue{};
  const bool known = entry != nullptr || ReadRecord(house_->PodDirectory(pod->metadata.uid));
  if (pod->metadata.Deleting()) {
    if (entry == nullptr && known) entry = &Adopt(key, pod);
    return EndDeleted(ctx, pod, entry);
  }
  if (pod->Finished() && !known) return Requeue{};
  if (entry == nullptr) entry = &Adopt(key, pod);
  entry->pod = pod;
  auto again = entry->runner->Sync(ctx, *pod);
  RETURN_IF_ERROR(Report(ctx, *pod, *entry->runner));
  if (!again) return std::unexpected(std::move(again).error());
  return Requeue{.after = *again};
}

Result<Requeue> Kubelet::EndGone(const Context& ctx, const ObjectKey& key, Entry& entry) {
  if (!entry.runner->Terminate(ctx, *entry.pod, clock_.WallNow()))
    return Requeue{.after = std::chrono::milliseconds(500)};
  entry.runner->Remove(ctx);
  const MutexLock lock(mutex_);
  entries_.erase(key);
  return Requeue{};
}

Result<Requeue> Kubelet::EndDeleted(const Context& ctx, const std::shared_ptr<const PodSpec>& pod,
                                    Entry* entry) {
  if (entry != nullptr) {
    const WallTime deadline(*pod->metadata.deletion_timestamp);
    if (!entry->runner->Terminate(ctx, *pod, deadline)) {
      const auto left =
          std::max<Clock::Duration>(deadline - clock_.WallNow(), std::chrono::milliseconds(500));
      return Requeue{.after = left};
    }
    RETURN_IF_ERROR(Report(ctx, *pod, *entry->runner));
    entry->runner->Remove(ctx);
    const MutexLock lock(mutex_);
    entries_.erase(pod->Key());
  }
  // Finalizers hold the object, not its processes.
  const auto deleted =
      client_.Delete(ctx, kube::kPods, pod->Key(),
                     {.preconditions = {.uid = pod->metadata.uid}, .grace_period = seconds(0)});
  if (!deleted && !IsNotFound(deleted.error()) && !IsConflict(deleted.error()))
    return std::unexpected(deleted.error());
  return Requeue{};
}

Result<void> Kubelet::Report(const Context& ctx, const PodSpec& pod, PodRunner& runner) {
  const std::string after =
      StatusJson(pod, runner.view(), std::chrono::floor<seconds>(clock_.WallNow()));
  ASSIGN_OR_RETURN(const auto patch, kube::MergeDifference("{\"status\":" + pod.status.text + "}",
                                                           "{\"status\":" + after + "}"));
  if (!patch) return {};
  auto done = client_.Patch(ctx, kube::kPods, pod.Key(),
                            kube::MergePatch(*patch, "status", {.uid = pod.metadata.uid}));
  if (done) {
    pods_.Learn(*done);
    return {};
  }
  // It is gone, or another pod has its name: the watch tells.
  if (IsNotFound(done.error()) || IsConflict(done.error())) return {};
  return std::unexpected(std::move(done).error());
}

void Kubelet::StopPods(const Context& ctx) {
  const WallTime deadline = clock_.WallNow() + kStopGrace;
  std::vector<Entry*> left;
  {
    const MutexLock lock(mutex_);
    for (auto& [key, entry] : entries_) left.push_back(&entry);
  }
  while (!left.empty()) {
    std::erase_if(left, [&](Entry* entry) {
      const WallTime end = std::min(deadline, clock_.WallNow() + entry->pod->grace);
      return entry->runner->Terminate(ctx, *entry->pod, end);
    });
    if (!left.empty() && !clock_.SleepFor(ctx, std::chrono::milliseconds(50))) break;
  }
  {
    const MutexLock lock(mutex_);
    for (auto& [key, entry] : entries_) entry.runner->Release(ctx);
  }
  network_->Shutdown(ctx);
  registration_->Retire(ctx.WithTimeout(seconds(3)));
}

}  // namespace paddleop::standalone::node
