#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/log.h"
#include "base/metrics.h"
#include "commands.h"
#include "controllers.h"
#include "controllers/common/caches.h"
#include "controllers/paddlejob/controller.h"
#include "controllers/samplejob/controller.h"
#include "controllers/sampleset/controller.h"
#include "kube/client/cluster_config.h"
#include "kube/client/http_cluster_client.h"
#include "kube/manager/manager.h"
#include "signals.h"

namespace paddleop::cmd {
namespace {

constexpr char kPaddleJob[] = "paddlejob";
constexpr char kSampleSet[] = "sampleset";
constexpr char kSampleJob[] = "samplejob";
// The Leases that managers of these controllers have always agreed by.
constexpr char kPaddleJobLease[] = "b2a304f2.paddlepaddle.org";
constexpr char kSampleSetLease[] = "37987177.paddlepaddle.org";
constexpr char kSampleJobLease[] = "778668173.batch.paddlepaddle.org";

struct Flags {
  std::string ns;
  bool leader_elect = false;
  std::string leader_elect_ns;
  std::string metrics_address = ":8080";
  std::string health_address = ":8081";
  std::string scheduling;
  std::vector<std::string> etcd_servers;
  std::vector<int> port_range = {35000, 65000};
  std::string init_image;
  std::string kubeconfig;
  std::string context;
  std::vector<std::string> controllers = {kPaddleJob};
  std::string runtime_image = "paddlepaddle/samplefs:v0.5.0";
  std::string data_mount_path = "/mnt";
  std::vector<std::string> source_dirs;
  std::size_t workers = 6;
  std::string log_level = "info";
  bool development = false;
  std::string ignored;
};

int Failed(const Status& status) {
  std::cerr << "paddle-operator manager: " << status.message() << "\n";
  return status.code() == Code::kInvalid ? 2 : 1;
}

bool Runs(const Flags& flags, std::string_view controller) {
  return std::find(flags.controllers.begin(), flags.controllers.end(), controller) !=
         flags.controllers.end();
}

// One manager, one Lease: that of the first of its controllers.
std::string LeaseOf(const Flags& flags) {
  if (Runs(flags, kPaddleJob)) return kPaddleJobLease;
  return Runs(flags, kSampleSet) ? kSampleSetLease : kSampleJobLease;
}

kube::ManagerOptions ManagerOptions(const Flags& flags, const kube::ClusterConfig& config) {
  kube::ManagerOptions options;
  options.metrics_address = flags.metrics_address;
  options.health_address = flags.health_address;
  if (flags.leader_elect) {
    kube::LeaderElectionOptions election;
    election.ns = flags.leader_elect_ns.empty() ? config.ns : flags.leader_elect_ns;
    election.name = LeaseOf(flags);
    options.leader_election = election;
  }
  return options;
}

Result<void> Work(const Context& ctx, const Flags& flags, const Logger& log,
                  MetricsRegistry& metrics) {
  ASSIGN_OR_RETURN(auto config, kube::LoadClusterConfig(flags.kubeconfig, flags.context));
  const auto manager_options = ManagerOptions(flags, config);
  ASSIGN_OR_RETURN(auto client, kube::HttpClusterClient::Create(std::move(config), {}, metrics));
  controllers::Caches caches(flags.ns, *client, log, metrics);

  kube::Manager manager(manager_options, *client, log, metrics);

  // Those that are not asked for stay empty, and watch nothing.
  std::unique_ptr<controllers::paddlejob::JobController> jobs;
  std::unique_ptr<controllers::sampleset::SetController> sets;
  std::unique_ptr<controllers::samplejob::DataJobController> data_jobs;
  if (Runs(flags, kPaddleJob)) {
    controllers::paddlejob::ControllerSettings settings;
    settings.volcano = flags.scheduling == "volcano";
    settings.etcd_servers = flags.etcd_servers;
    settings.first_port = flags.port_range[0];
    settings.last_port = flags.port_range[1];
    settings.workers = flags.workers;
    ASSIGN_OR_RETURN(jobs, controllers::paddlejob::JobController::Create(settings, *client, caches,
                                                                         log, metrics));
    jobs->AddTo(manager);
  }
  if (Runs(flags, kSampleSet)) {
    controllers::sampleset::ControllerSettings settings;
    settings.runtime_image = flags.runtime_image;
    settings.mount_root = flags.data_mount_path;
    settings.source_dirs = flags.source_dirs;
    settings.workers = flags.workers;
    ASSIGN_OR_RETURN(sets, controllers::sampleset::SetController::Create(settings, *client, caches,
                                                                         log, metrics));
    sets->AddTo(manager);
  }
  if (Runs(flags, kSampleJob)) {
    controllers::samplejob::ControllerSettings settings;
    settings.workers = flags.workers;
    ASSIGN_OR_RETURN(data_jobs, controllers::samplejob::DataJobController::Create(
                                    settings, *client, caches, log, metrics));
    data_jobs->AddTo(manager);
  }
  caches.AddTo(manager);
  log.Info(ctx, "manager starts",
           {{"version", PADDLEOP_VERSION},
            {"namespace", flags.ns.empty() ? "all" : flags.ns},
            {"scheduling", flags.scheduling}});
  return manager.Run(ctx);
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--controllers", flags.controllers, "Controllers to run, comma-separated")
      ->delimiter(',')
      ->check(CLI::IsMember({kPaddleJob, kSampleSet, kSampleJob}))
      ->capture_default_str();
  app.add_option("--namespace", flags.ns, "Watch this namespace only; empty: all");
  app.add_flag("--leader-elect", flags.leader_elect,
               "Work only while holding the Lease, so that several may run");
  app.add_option("--leader-elect-namespace", flags.leader_elect_ns,
                 "Where the Lease is; empty: the pod's namespace");
  app.add_option("--metrics-bind-address", flags.metrics_address, "host:port of /metrics; 0: none")
      ->capture_default_str();
  app.add_option("--health-probe-bind-address", flags.health_address,
                 "host:port of /healthz and /readyz; 0: none")
      ->capture_default_str();
  app.add_option("--scheduling", flags.scheduling, "Gang scheduler: volcano, or empty for none")
      ->check(CLI::IsMember({"", "volcano"}));
  app.add_option("--etcd-server", flags.etcd_servers,
                 "etcd for elastic jobs: HOST:PORT, comma-separated")
      ->delimiter(',');
  app.add_option("--port-range", flags.port_range,
                 "Host ports for jobs with intranet Host: FIRST,LAST")
      ->delimiter(',')
      ->expected(2)
      ->capture_default_str();
  app.add_option("--runtime-image", flags.runtime_image, "Image of samplefs, for runtime pods")
      ->envname("RUNTIME_IMAGE")
      ->capture_default_str();
  app.add_option("--data-mount-path", flags.data_mount_path,
                 "Where runtime pods of csi.driver juicefs mount the volume")
      ->envname("DATA_MOUNT_PATH")
      ->capture_default_str();
  app.add_option("--source-dir", flags.source_dirs,
                 "Directories of the nodes that SampleSets may import from by file:///...; none: "
                 "such sources are refused");
  app.add_option("--initImage", flags.init_image,
                 "Accepted for old manifests; pods need no init container");
  app.add_option("--kubeconfig", flags.kubeconfig,
                 "Default: $KUBECONFIG, the pod's identity, or ~/.kube/config");
  app.add_option("--context", flags.context, "Context of the kubeconfig; empty: its current one");
  app.add_option("--workers", flags.workers, "Jobs worked on at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->capture_default_str();
  app.add_flag("--development,--zap-devel", flags.development, "Same as --log-level=debug");
  app.add_option("--zap-log-level", flags.log_level, "Same as --log-level");
  for (const char* name : {"--zap-encoder", "--zap-stacktrace-level", "--zap-time-encoding"}) {
    app.add_option(name, flags.ignored, "Accepted for old manifests; logs are JSON")->group("");
  }
}

}  // namespace

Result<void> RunAllControllers(const Context& ctx, const std::string& kubeconfig,
                               const std::vector<std::string>& source_dirs, const Logger& log,
                               MetricsRegistry& metrics) {
  Flags flags;
  flags.source_dirs = source_dirs;
  flags.kubeconfig = kubeconfig;
  flags.controllers = {kPaddleJob, kSampleSet, kSampleJob};
  flags.metrics_address = "0";
  flags.health_address = "0";
  return Work(ctx, flags, log, metrics);
}

void AddManager(CLI::App& app, Run& run) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("manager", "Run the controllers");
  AddFlags(*command, *flags);
  command->callback([flags, &run] {
    run = [flags] {
      // Many threads, each with little to do: an arena for each would hold memory that nobody uses.
      mallopt(M_ARENA_MAX, 2);
      auto level = ParseLogLevel(flags->development ? "debug" : flags->log_level);
      if (!level) return Failed(level.error());
      const Logger log(*level);
      const StopOnSignal signals;
      MetricsRegistry metrics;
      auto done = Work(Context::Background().WithStop(signals.token()), *flags, log, metrics);
      return done ? 0 : Failed(done.error());
    };
  });
}

}  // namespace paddleop::cmd
