#include "standalone/node/kubelet/pod_runner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/posix.h"
#include "standalone/node/kubelet/hosts.h"

namespace paddleop::standalone::node {
namespace {

namespace fs = std::filesystem;
using kube::EventType;
using std::chrono::seconds;

constexpr seconds kVolumeRetry{2};
constexpr seconds kConfigRetry{5};     // a ConfigMap that appears wakes the pod before
constexpr seconds kVolumeRefresh{60};  // ConfigMaps and Secrets that change
constexpr seconds kStartTimeout{60};

bool ChangesOverTime(const VolumeSpec& volume) {
  return volume.kind == "configMap" || volume.kind == "secret" || volume.kind == "projected";
}

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  if (out.size() > 80) out = out.substr(0, 77) + "...";
  return out;
}

}  // namespace

PodRunner::PodRunner(PodHouse& house, const PodSpec& pod)
    : house_(house), directory_(house.PodDirectory(pod.metadata.uid)) {
  auto record = ReadRecord(directory_);
  if (record) {
    record_ = *std::move(record);
  } else {
    record_.key = pod.Key();
    record_.uid = pod.metadata.uid;
    record_.node = pod.node_name;
    record_.host_network = pod.host_network;
    record_.start_time = std::chrono::floor<seconds>(house_.clock.WallNow());
  }
  const auto add = [&](const ContainerSpec& spec, Containers& to) {
    to.push_back(std::make_unique<ContainerRunner>(
        spec, record_.uid, directory_ + "/containers/" + spec.name, house_.delays));
    if (to.back()->running()) WatchExit(*to.back());
  };
  for (const ContainerSpec& spec : pod.init_containers) add(spec, init_);
  for (const ContainerSpec& spec : pod.containers) add(spec, containers_);
}

void PodRunner::ForEach(const std::function<void(ContainerRunner&)>& call) {
  for (auto& each : init_) call(*each);
  for (auto& each : containers_) call(*each);
}

void PodRunner::Tell(EventType type, std::string reason, std::string message) {
  house_.events.Record(kube::ReferenceTo(kube::kPods, record_.key, record_.uid), type,
                       std::move(reason), std::move(message));
}

void PodRunner::LookAgain(Clock::Duration after) {
  again_ = again_ ? std::min(*again_, after) : after;
}

NodeFacts PodRunner::Facts(const PodSpec& pod) const {
  return {.node_name = pod.node_name, .host_ip = house_.network.host_ip(), .pod_ip = record_.ip};
}

void PodRunner::WatchExit(const ContainerRunner& container) {
  if (!container.process()) return;
  house_.exits.Watch(container.process()->shim.pid,
                     [wake = house_.wake, key = record_.key] { wake(key); });
}

const PodView& PodRunner::view() {
  view_.host_ip = house_.network.host_ip();
  view_.pod_ip = record_.ip;
  view_.volumes_ready = volumes_ready_;
  view_.start_time = record_.start_time;
  view_.failure_reason = record_.failure_reason;
  view_.failure_message = record_.failure_message;
  view_.init_containers.clear();
  view_.containers.clear();
  for (const auto& each : init_) view_.init_containers.push_back(each->view());
  for (const auto& each : containers_) view_.containers.push_back(each->view());
  return view_;
}

Result<std::optional<Clock::Duration>> PodRunner::Sync(const Context& ctx, const PodSpec& pod) {
  again_.reset();
  ForEach([](ContainerRunner& container) { container.Observe(); });
  CheckDeadline(pod);
  const std::string phase = PhaseOf(pod, view());
  if (phase == "Succeeded" || phase == "Failed") {
    ReleaseFinished(ctx, pod);
    return again_;
  }
  RETURN_IF_ERROR(EnsureNetwork(ctx, pod));
  if (!EnsureVolumes(ctx, pod)) return again_;
  RefreshMounts(ctx, pod);
  if (RunInitContainers(ctx, pod)) {
    for (std::size_t i = 0; i < containers_.size(); ++i)
      RunContainer(ctx, pod, pod.containers[i], *containers_[i], pod.restart);
  }
  return again_;
}

void PodRunner::CheckDeadline(const PodSpec& pod) {
  if (!pod.active_deadline || !record_.failure_reason.empty()) return;
  const WallTime end = WallTime(record_.start_time) + *pod.active_deadline;
  const WallTime now = house_.clock.WallNow();
  if (now < end) return LookAgain(end - now);
  record_.failure_reason = "DeadlineExceeded";
  record_.failure_message = "Pod was active on the node longer than the specified deadline";
  (void)WriteRecord(directory_, record_);
  Tell(EventType::kNormal, "DeadlineExceeded", record_.failure_message);
}

void PodRunner::ReleaseFinished(const Context& ctx, const PodSpec& pod) {
  if (released_) return;
  if (!deadline_) deadline_ = house_.clock.WallNow() + pod.grace;
  if (!Terminate(ctx, pod, *deadline_)) return;
  Release(ctx);
  house_.volumes.Remove(ctx, record_.uid, directory_ + "/volumes");
}

Result<void> PodRunner::EnsureNetwork(const Context& ctx, const PodSpec& pod) {
  if (network_ready_) return {};
  if (pod.host_network) {
    record_.ip = house_.network.host_ip();
  } else {
    ASSIGN_OR_RETURN(address_, house_.network.Add(ctx, record_.uid, record_.ip));
    record_.ip = address_.ip;
  }
  RETURN_IF_ERROR(WriteRecord(directory_, record_));
  WriteHosts(pod);
  network_ready_ = true;
  return {};
}

void PodRunner::WriteHosts(const PodSpec& pod) {
  if (!house_.namespaces || record_.ip.empty()) return;
  const std::string path = directory_ + "/hosts";
  const std::string text = house_.hosts(pod, record_.ip);
  const auto old = ReadFile(path);
  if (old && *old == text) return;
  if (!WriteHostsFile(path, text))
    house_.log.Warn(Context::Background(), "hosts file not written", {{"path", path}});
}

bool PodRunner::EnsureVolumes(const Context& ctx, const PodSpec& pod) {
  const WallTime now = house_.clock.WallNow();
  const bool changes = std::any_of(pod.volumes.begin(), pod.volumes.end(), ChangesOverTime);
  if (volumes_ready_ && !(changes && now - volumes_checked_ >= kVolumeRefresh)) {
    if (changes) LookAgain(kVolumeRefresh - (now - volumes_checked_));
    return true;
  }
  auto made = house_.volumes.Prepare(ctx, pod, Facts(pod), directory_ + "/volumes");
  if (made) {
    volumes_ = *std::move(made);
    volumes_ready_ = true;
    volumes_checked_ = now;
    if (changes) LookAgain(kVolumeRefresh);
    return true;
  }
  Tell(EventType::kWarning, "FailedMount", made.error().message());
  LookAgain(kVolumeRetry);
  if (volumes_ready_) return true;  // the containers run on with what they have
  return false;
}

bool PodRunner::RunInitContainers(const Context& ctx, const PodSpec& pod) {
  for (std::size_t i = 0; i < init_.size(); ++i) {
    const ContainerSpec& spec = pod.init_containers[i];
    ContainerRunner& container = *init_[i];
    if (!spec.sidecar && container.view().Succeeded()) continue;
    const RestartPolicy policy =
        spec.sidecar ? RestartPolicy::kAlways
                     : (pod.restart == RestartPolicy::kNever ? RestartPolicy::kNever
                                                             : RestartPolicy::kOnFailure);
    RunContainer(ctx, pod, spec, container, policy);
    if (!spec.sidecar || !container.view().started) {
      for (auto& each : containers_) each->view().reason = "PodInitializing";
      return false;
    }
  }
  for (auto& each : containers_) {
    if (each->view().reason == "PodInitializing") each->view().reason.clear();
  }
  return true;
}

void PodRunner::RunContainer(const Context& ctx, const PodSpec& pod, const ContainerSpec& spec,
                             ContainerRunner& container, RestartPolicy policy) {
  if (container.running()) {
    ProbeContainer(pod, spec, container);
    return;
  }
  probes_.erase(spec.name);
  kill_at_.erase(spec.name);
  if (container.ever_started()) {
    const bool again = container.WantsRestart(policy);
    const bool waiting_for_first = !container.ended() && !container.view().last;
    if (!again && !waiting_for_first) return;
    if (again) {
      const auto at = container.RestartAt();
      const WallTime now = house_.clock.WallNow();
      if (at && *at > now) {
        if (container.view().reason != "CrashLoopBackOff") {
          Tell(EventType::kWarning, "BackOff",
               fmt::format("Back-off restarting failed container {} in pod {}", spec.name,
                           record_.key.name));
        }
        // The message must not change from second to second, or the status would.
        container.SetWaiting("CrashLoopBackOff",
                             fmt::format("back-off restarting failed container={} pod={}",
                                         spec.name, record_.key.ToString()));
        return LookAgain(*at - now);
      }
    }
  }
  if (MountsAlive(container)) StartContainer(ctx, pod, spec, container);
}

Result<ShimSpec> PodRunner::ShimFor(const Context& ctx, const PodSpec& pod,
                                    const ContainerSpec& spec) {
  ShimSpec shim;
  Environment base = house_.base_environment;
  const std::string hostname = pod.hostname.empty() ? pod.metadata.name : pod.hostname;
  base.emplace_back("HOSTNAME", hostname);
  ASSIGN_OR_RETURN(shim.env, ContainerEnvironment(ctx, pod, spec, Facts(pod), base, house_.config));
  for (const auto* words : {&spec.command, &spec.args}) {
    for (const std::string& word : *words) shim.argv.push_back(Expand(word, shim.env));
  }
  if (shim.argv.empty()) shim.argv = {"sleep", "infinity"};
  const std::string work = directory_ + "/work/" + spec.name;
  RETURN_IF_ERROR(MakeDirectories(work));
  shim.cwd = spec.working_dir.empty() ? work : spec.working_dir;
  shim.namespaces = house_.namespaces;
  if (!house_.namespaces) {
    if (!spec.mounts.empty() && std::any_of(spec.mounts.begin(), spec.mounts.end(), [](auto& m) {
          return m.path != "/var/run/secrets/kubernetes.io/serviceaccount";
        })) {
      return Fail(Code::kPermission,
                  "volume mounts need mount namespaces, and those need root: run the node as root");
    }
    return shim;
  }
  ASSIGN_OR_RETURN(shim.mounts, MountsOf(spec, volumes_));
  std::error_code error;
  if (!fs::exists(shim.cwd, error)) {
    // As an image's own directory would: there, empty, and private to the container.
    const bool mounted = std::any_of(shim.mounts.begin(), shim.mounts.end(), [&](auto& mount) {
      return shim.cwd == mount.target || shim.cwd.starts_with(mount.target + "/");
    });
    if (!mounted) shim.mounts.push_back({work, shim.cwd, false});
  }
  shim.network = pod.host_network ? "" : address_.network;
  shim.hostname = pod.host_network ? "" : hostname;
  shim.hosts_file = pod.host_network ? "" : directory_ + "/hosts";
  shim.data_dir = house_.data_dir;
  shim.stage = directory_ + "/root";
  RETURN_IF_ERROR(MakeDirectories(shim.stage));
  return shim;
}

void PodRunner::StartContainer(const Context& ctx, const PodSpec& pod, const ContainerSpec& spec,
                               ContainerRunner& container) {
  auto shim = ShimFor(ctx, pod, spec);
  if (!shim) {
    const bool missing = IsNotFound(shim.error());
    if (container.view().reason != "CreateContainerConfigError")
      Tell(EventType::kWarning, "Failed", "Error: " + shim.error().message());
    container.SetWaiting("CreateContainerConfigError", shim.error().message());
    return LookAgain(missing ? kConfigRetry : kVolumeRetry * 5);
  }
  const bool waits = spec.command.empty() && spec.args.empty();
  const bool first = !container.ever_started();
  auto started = container.Start(ctx.WithTimeout(kStartTimeout), house_.program, *shim);
  if (!started) {
    Tell(EventType::kWarning, "Failed", "Error: " + started.error().message());
    return LookAgain(seconds(0));
  }
  if (first && waits) {
    Tell(EventType::kWarning, "NoCommand",
         fmt::format("Container {} has no command and image \"{}\" is not pulled: a process that "
                     "waits runs in its place",
                     spec.name, spec.image));
  } else if (first) {
    Tell(EventType::kNormal, "HostProcess",
         fmt::format("Image \"{}\" is not pulled: `{}` runs as a process of this machine",
                     spec.image, Joined(shim->argv)));
  }
  Tell(EventType::kNormal, "Started", "Started container " + spec.name);
  WatchExit(container);
  ProbeContainer(pod, spec, container);
}

void PodRunner::ProbeContainer(const PodSpec& pod, const ContainerSpec& spec,
                               ContainerRunner& container) {
  Probes& probes = probes_[spec.name];
  const auto start = [&](const std::optional<Probe>& probe, std::unique_ptr<Prober>& to) {
    if (!probe || to) return;
    ProbeTarget target{.ip = record_.ip,
                       .ports = spec.ports,
                       .process = *container.process(),
                       .namespaces = house_.namespaces,
                       .program = house_.program};
    to = std::make_unique<Prober>(*probe, std::move(target),
                                  [wake = house_.wake, key = record_.key] { wake(key); });
  };
  if (probes.run != container.runs()) {
    probes = Probes{};
    probes.run = container.runs();
  }
  start(spec.startup, probes.startup);
  using Verdict = Prober::Verdict;
  container.view().started = !probes.startup || probes.startup->verdict() == Verdict::kGood;
  if (container.view().started) {
    start(spec.readiness, probes.readiness);
    start(spec.liveness, probes.liveness);
  }
  container.view().ready = container.view().started &&
                           (!probes.readiness || probes.readiness->verdict() == Verdict::kGood);
  const WallTime now = house_.clock.WallNow();
  for (Prober* prober : {probes.startup.get(), probes.liveness.get()}) {
    if (prober == nullptr || prober->verdict() != Verdict::kBad) continue;
    if (kill_at_.emplace(spec.name, now + pod.grace).second) {
      Tell(EventType::kWarning, "Unhealthy", prober->reason());
      Tell(EventType::kNormal, "Killing",
           fmt::format("Container {} failed {} probe, will be restarted", spec.name,
                       prober == probes.startup.get() ? "startup" : "liveness"));
      container.Terminate();
    }
  }
  if (const auto at = kill_at_.find(spec.name); at != kill_at_.end()) {
    if (now >= at->second) container.Kill();
    LookAgain(std::max<Clock::Duration>(at->second - now, std::chrono::milliseconds(200)));
  }
}

bool PodRunner::Terminate(const Context& ctx, const PodSpec& pod, WallTime deadline) {
  ForEach([](ContainerRunner& container) { container.Observe(); });
  const WallTime now = house_.clock.WallNow();
  if (!terminating_) {
    terminating_ = true;
    probes_.clear();
    for (std::size_t i = 0; i < containers_.size(); ++i) {
      ContainerRunner& container = *containers_[i];
      if (!container.running()) continue;
      Tell(EventType::kNormal, "Killing", "Stopping container " + pod.containers[i].name);
      if (!pod.containers[i].pre_stop.empty()) {
        Probe hook{.kind = Probe::Kind::kExec, .command = pod.containers[i].pre_stop};
        hook.timeout = std::max(seconds(1), std::chrono::ceil<seconds>(deadline - now));
        const auto done = RunProbe(ctx, hook,
                                   {.process = *container.process(),
                                    .namespaces = house_.namespaces,
                                    .program = house_.program});
        if (!done) Tell(EventType::kWarning, "FailedPreStopHook", done.error().message());
      }
    }
    ForEach([](ContainerRunner& container) { container.Terminate(); });
  }
  if (now >= deadline) ForEach([](ContainerRunner& container) { container.Kill(); });
  bool ended = true;
  ForEach([&](ContainerRunner& container) { ended = ended && !container.running(); });
  if (!ended) LookAgain(std::max<Clock::Duration>(deadline - now, std::chrono::milliseconds(500)));
  return ended;
}

void PodRunner::Release(const Context& ctx) {
  if (released_) return;
  probes_.clear();
  house_.volumes.Unmount(ctx, record_.uid, directory_ + "/volumes");
  if (!record_.host_network) house_.network.Remove(ctx, record_.uid, record_.ip);
  released_ = true;
}

void PodRunner::Remove(const Context& ctx) {
  Release(ctx);
  std::error_code error;
  fs::remove_all(directory_, error);
  if (error) {
    house_.log.Warn(ctx, "pod directory not removed",
                    {{"path", directory_}, {"error", error.message()}});
  }
}

}  // namespace paddleop::standalone::node
