#include "standalone/node/agent.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>

#include "base/posix.h"
#include "standalone/node/endpoint/endpoint_files.h"

namespace paddleop::standalone::node {

namespace {

namespace fs = std::filesystem;

// Where this program lies; empty if that cannot be found out.
fs::path OwnDirectory() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

// A program that lies beside this one is taken before one in PATH: they come together.
std::string ProgramBeside(const std::string& name) {
  const fs::path own = OwnDirectory() / name;
  std::error_code error;
  return !name.contains('/') && fs::exists(own, error) ? own.string() : name;
}

}  // namespace

Agent::Agent(kube::ClusterClient& client, const Logger& log, MetricsRegistry& metrics, Clock& clock)
    : pods_({.resource = kube::kPods}, PodSpec::Parse, client, log, metrics, clock),
      nodes_({.resource = kube::kNodes}, NodeView::Parse, client, log, metrics, clock) {}

Result<std::unique_ptr<Agent>> Agent::Create(const Context& ctx, AgentOptions options,
                                             kube::ClusterClient& client, const Logger& log,
                                             MetricsRegistry& metrics, Clock& clock) {
  std::unique_ptr<Agent> agent(new Agent(client, log, metrics, clock));
  KubeletOptions& kubelet = options.kubelet;
  if (kubelet.nodes.size() > 1) kubelet.logical_root = kubelet.data_dir + "/nodes";
  if (kubelet.namespaces) {
    mounter::MounterOptions mounts{.program = ProgramBeside(options.mount_program),
                                   .directory = kubelet.data_dir + "/mounts"};
    mounts.replaced = [a = agent.get()](const auto& pods, const Result<void>& mounted) {
      a->kubelet_->MountReplaced(pods, mounted);  // there are no users before it
    };
    ASSIGN_OR_RETURN(agent->mounter_, mounter::Mounter::Create(std::move(mounts), log));
    agent->claims_ = std::make_unique<Claims>(client, *agent->mounter_, kubelet.logical_root);
    kubelet.claims = agent->claims_.get();
  }
  ASSIGN_OR_RETURN(agent->kubelet_, Kubelet::Create(ctx, options.kubelet, client, agent->pods_, log,
                                                    metrics, clock));
  if (options.scheduler) {
    agent->scheduler_ =
        std::make_unique<Scheduler>(client, agent->pods_, agent->nodes_, log, metrics, clock);
    agent->watches_nodes_ = true;
  }
  if (options.builtin_controllers) {
    agent->node_taints_ = std::make_unique<NodeTaints>(client, agent->nodes_, log, metrics, clock);
    agent->stateful_sets_ =
        std::make_unique<StatefulSets>(client, agent->pods_, log, metrics, clock);
    agent->volume_binder_ = std::make_unique<VolumeBinder>(client, log, metrics, clock);
    agent->watches_nodes_ = true;
  }
  RETURN_IF_ERROR(agent->Serve(options, log, metrics, clock));
  return agent;
}

Result<void> Agent::Serve(const AgentOptions& options, const Logger& log, MetricsRegistry& metrics,
                          Clock& clock) {
  if (options.endpoint_token.empty() && options.endpoint_client_ca.empty()) return {};
  EndpointOptions endpoint;
  endpoint.address = kubelet_->host_ip();
  endpoint.port = options.endpoint_port;
  ASSIGN_OR_RETURN(endpoint.tls, EndpointCertificate(options.kubelet.data_dir + "/tls",
                                                     {endpoint.address}, clock));
  endpoint.tls.client_ca_file = options.endpoint_client_ca;
  endpoint.token = options.endpoint_token;
  endpoint.data_dir = options.kubelet.data_dir;
  endpoint.program = "/proc/self/exe";
  endpoint.namespaces = options.kubelet.namespaces;
  ASSIGN_OR_RETURN(
      endpoint_,
      Endpoint::Start(
          std::move(endpoint), [this](const api::ObjectKey& key) { return kubelet_->FindPod(key); },
          log, metrics));
  kubelet_->SetEndpoint(endpoint_->port());
  return {};
}

void Agent::AddTo(kube::Manager& manager) {
  manager.Add(pods_);
  if (watches_nodes_) manager.Add(nodes_);
  kubelet_->AddTo(manager);
  if (scheduler_) scheduler_->AddTo(manager);
  if (node_taints_) node_taints_->AddTo(manager);
  if (stateful_sets_) stateful_sets_->AddTo(manager);
  if (volume_binder_) volume_binder_->AddTo(manager);
}

void Agent::Stop(const Context& ctx) {
  if (endpoint_) endpoint_->Stop();
  kubelet_->StopPods(ctx);
  if (mounter_) mounter_->Shutdown();
}

Environment HostEnvironment() {
  Environment out;
  // Programs that lie beside this one (samplefs) are part of what an image of ours would have.
  const std::string self = OwnDirectory().string();
  for (const char* name : {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH"}) {
    std::string value = GetEnv(name);
    if (value.empty()) continue;
    if (name == std::string_view("PATH") && !self.empty()) value.insert(0, self + ":");
    out.emplace_back(name, std::move(value));
  }
  return out;
}

Result<DataDirLock> DataDirLock::Take(const std::string& data_dir) {
  RETURN_IF_ERROR(MakeDirectories(data_dir, 0711));
  ASSIGN_OR_RETURN(UniqueFd fd,
                   OpenFile(data_dir + "/node.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return Fail(Code::kUnavailable,
                  "another node agent uses {}; stop it or choose another --data-dir", data_dir);
    }
    return ErrnoFail("lock {}", data_dir);
  }
  return DataDirLock(std::move(fd));
}

}  // namespace paddleop::standalone::node
