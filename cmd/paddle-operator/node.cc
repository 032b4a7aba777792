#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "base/log.h"
#include "base/metrics.h"
#include "base/posix.h"
#include "commands.h"
#include "kube/client/cluster_config.h"
#include "kube/client/http_cluster_client.h"
#include "kube/manager/manager.h"
#include "node.h"
#include "signals.h"
#include "standalone/node/agent.h"

namespace paddleop::cmd {
namespace {

namespace node = standalone::node;

struct Flags {
  NodeSettings settings;
  std::string node_name;
  int nodes = 1;
  std::string token_file;
  std::string log_level = "info";
};

int Failed(const Status& status) {
  std::cerr << "paddle-operator node: " << status.message() << "\n";
  return status.code() == Code::kInvalid ? 2 : 1;
}

node::AgentOptions AgentOptions(const NodeSettings& settings, const std::string& data_dir) {
  node::AgentOptions options;
  options.endpoint_port = settings.port;
  options.endpoint_client_ca = settings.client_ca_file;
  options.endpoint_token = settings.token;
  options.scheduler = settings.scheduler;
  options.builtin_controllers = settings.builtin_controllers;
  options.kubelet.data_dir = data_dir;
  options.kubelet.nodes = settings.nodes;
  options.kubelet.namespaces = ::geteuid() == 0;
  const bool own_networks = settings.network == "namespaces" ||
                            (settings.network == "auto" && options.kubelet.namespaces);
  options.kubelet.network =
      own_networks ? node::NetworkMode::kNamespaces : node::NetworkMode::kLoopback;
  options.kubelet.base_environment = node::HostEnvironment();
  options.kubelet.version = "v" PADDLEOP_VERSION;
  return options;
}

Result<void> Work(Flags& flags, const Logger& log) {
  const StopOnSignal signals;
  NodeSettings& settings = flags.settings;
  settings.nodes = flags.node_name.empty() ? LogicalNodes(flags.nodes)
                                           : std::vector<std::string>{flags.node_name};
  if (!flags.token_file.empty()) {
    ASSIGN_OR_RETURN(std::string token, ReadFile(flags.token_file, 1 << 16));
    while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())))
      token.pop_back();
    settings.token = Secret(std::move(token));
  }
  MetricsRegistry metrics;
  return RunNode(Context::Background().WithStop(signals.token()), settings, log, metrics);
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--kubeconfig", flags.settings.kubeconfig,
                 "Default: $KUBECONFIG, the pod's identity, or ~/.kube/config");
  app.add_option("--context", flags.settings.context,
                 "Context of the kubeconfig; empty: its current one");
  app.add_option("--data-dir", flags.settings.data_dir,
                 "Where pods' files, volumes and logs are kept")
      ->required();
  auto* name = app.add_option("--node-name", flags.node_name, "Name of a single node");
  app.add_option("--nodes", flags.nodes, "How many logical nodes: node-0, node-1, ...")
      ->check(CLI::Range(1, 64))
      ->excludes(name)
      ->capture_default_str();
  app.add_flag("--scheduler", flags.settings.scheduler,
               "Bind pods to nodes too, where the cluster has no scheduler");
  app.add_flag("--builtin-controllers", flags.settings.builtin_controllers,
               "Look after StatefulSets and volume claims too, where the cluster has no "
               "controller-manager");
  app.add_option("--network", flags.settings.network,
                 "namespaces: a network for each pod (root); loopback: an address 127.x.y.z each")
      ->check(CLI::IsMember({"auto", "namespaces", "loopback"}))
      ->capture_default_str();
  app.add_option("--port", flags.settings.port,
                 "Port of logs and exec, at the node's address; 0: any free one")
      ->capture_default_str();
  app.add_option("--client-ca-file", flags.settings.client_ca_file,
                 "Serve logs and exec to API servers with a certificate of this CA");
  app.add_option("--token-file", flags.token_file,
                 "Serve logs and exec to API servers that show this token");
  app.add_option("--metrics-bind-address", flags.settings.metrics_address,
                 "host:port of /metrics; 0: none")
      ->capture_default_str();
  app.add_option("--health-probe-bind-address", flags.settings.health_address,
                 "host:port of /healthz and /readyz; 0: none")
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->capture_default_str();
}

}  // namespace

std::vector<std::string> LogicalNodes(int count) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(std::max(count, 0)));
  for (int i = 0; i < count; ++i) names.push_back("node-" + std::to_string(i));
  return names;
}

Result<void> RunNode(const Context& ctx, const NodeSettings& settings, const Logger& log,
                     MetricsRegistry& metrics) {
  // A container that ends while we write to it is no reason to end.
  std::signal(SIGPIPE, SIG_IGN);
  std::error_code error;
  std::string data_dir = std::filesystem::absolute(settings.data_dir, error).lexically_normal();
  if (data_dir.size() > 1 && data_dir.back() == '/') data_dir.pop_back();
  ASSIGN_OR_RETURN(const auto lock, node::DataDirLock::Take(data_dir));
  ASSIGN_OR_RETURN(auto config, kube::LoadClusterConfig(settings.kubeconfig, settings.context));
  ASSIGN_OR_RETURN(auto client, kube::HttpClusterClient::Create(std::move(config), {}, metrics));
  ASSIGN_OR_RETURN(auto agent, node::Agent::Create(ctx, AgentOptions(settings, data_dir), *client,
                                                   log, metrics));
  kube::ManagerOptions manager_options;
  manager_options.metrics_address = settings.metrics_address;
  manager_options.health_address = settings.health_address;
  kube::Manager manager(manager_options, *client, log, metrics);
  agent->AddTo(manager);
  log.Info(ctx, "node agent starts", {{"version", PADDLEOP_VERSION}, {"data", data_dir}});
  auto done = manager.Run(ctx);
  agent->Stop(Context::Background().WithTimeout(std::chrono::seconds(30)));
  return done;
}

void AddNode(CLI::App& app, Run& run) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("node", "Run the pods of one or more nodes as processes of this machine");
  AddFlags(*command, *flags);
  command->callback([flags, &run] {
    run = [flags] {
      mallopt(M_ARENA_MAX, 2);
      auto level = ParseLogLevel(flags->log_level);
      if (!level) return Failed(level.error());
      const Logger log(*level);
      auto done = Work(*flags, log);
      return done ? 0 : Failed(done.error());
    };
  });
}

}  // namespace paddleop::cmd
