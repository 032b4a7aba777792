#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <thread>

#include "base/log.h"
#include "base/metrics.h"
#include "base/thread_pool.h"
#include "commands.h"
#include "controllers.h"
#include "node.h"
#include "signals.h"
#include "standalone/apiserver/api_server.h"

namespace paddleop::cmd {
namespace {

struct Flags {
  std::string data_dir;
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::vector<std::string> names;
  bool api_only = false;
  int nodes = 1;
  std::string network = "auto";
  std::vector<std::string> source_dirs;
  std::string log_level = "warn";
};

int Failed(const Status& status) {
  std::cerr << "paddle-operator standalone: " << status.message() << "\n";
  return status.code() == Code::kInvalid ? 2 : 1;
}

void Warn(const std::string& text) { std::cerr << "paddle-operator standalone: " << text << "\n"; }

// What this machine or user cannot do, each in one line that says what would help.
void SayWhatIsMissing() {
  if (::geteuid() != 0) {
    Warn(
        "not root: pods share this machine's files and get no volumes, so that no SampleSet can be "
        "mounted; run it with sudo for all of it");
  } else if (::access("/dev/fuse", R_OK | W_OK) != 0) {
    Warn(
        "no FUSE (/dev/fuse): no SampleSet can be mounted into pods; load it with 'modprobe fuse', "
        "or give the container the device");
  }
}

// What a user can do about a data directory that cannot be used.
Status WithAdvice(Status status) {
  if (status.code() == Code::kPermission) {
    return Status(status.code(), status.message() + "; give a --data-dir that you may write to");
  }
  if (status.code() == Code::kNoSpace && !status.message().contains("free some")) {
    return Status(status.code(),
                  status.message() + "; free some space on that disk, or give another --data-dir");
  }
  return status;
}

// Controllers and node agent, until the context stops or one of them fails.
Result<void> RunParts(const Context& ctx, const Flags& flags,
                      const standalone::apiserver::ApiServer& server, const Logger& log,
                      MetricsRegistry& metrics) {
  NodeSettings node;
  node.kubeconfig = server.kubeconfig_file();
  node.data_dir = flags.data_dir + "/node";
  node.nodes = LogicalNodes(flags.nodes);
  node.scheduler = true;
  node.builtin_controllers = true;
  node.network = flags.network;
  node.token = server.token();
  std::stop_source stop;
  const std::stop_callback signalled(ctx.stop(), [&] { stop.request_stop(); });
  const Context both = ctx.WithStop(stop.get_token());
  Result<void> ran;
  std::jthread agent([&] {
    SetThreadName("node");
    ran = RunNode(both, node, log, metrics);
    stop.request_stop();
  });
  auto controlled =
      RunAllControllers(both, server.kubeconfig_file(), flags.source_dirs, log, metrics);
  stop.request_stop();
  agent.join();
  if (ctx.Stopped()) return {};  // what was broken off by that is no failure
  if (!ran) return ran;
  return controlled;
}

// The API server first; everything else is a client of it, as in a cluster.
Result<void> Work(const Flags& flags, const Logger& log) {
  const StopOnSignal signals;
  const Context ctx = Context::Background().WithStop(signals.token());
  MetricsRegistry metrics;
  standalone::apiserver::ApiServerOptions options;
  options.data_dir = flags.data_dir;
  options.address = flags.address;
  options.port = flags.port;
  options.names = flags.names;
  const auto started = standalone::apiserver::ApiServer::Start(std::move(options), log, metrics);
  if (!started) return std::unexpected(WithAdvice(started.error()));
  const auto& server = *started;
  if (!flags.api_only) SayWhatIsMissing();
  std::cout << "serving at " << server->url() << "\n"
            << "export KUBECONFIG=" << server->kubeconfig_file() << '\n'
            << std::flush;
  if (flags.api_only) {
    while (Clock::System().SleepFor(ctx, std::chrono::hours(24))) {
    }
    return {};
  }
  return RunParts(ctx, flags, *server, log, metrics);
}

}  // namespace

void AddStandalone(CLI::App& app, Run& run) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "standalone", "Run the whole system on this machine: API server, controllers, nodes");
  command->add_option("--data-dir", flags->data_dir, "Where everything is kept; made if missing")
      ->required();
  command->add_option("--address", flags->address, "Listen here; loopback unless told otherwise")
      ->capture_default_str();
  command->add_option("--port", flags->port, "0: the port of the last time, or any free one")
      ->capture_default_str();
  command
      ->add_option("--name", flags->names,
                   "Further names and addresses that clients use, comma-separated")
      ->delimiter(',');
  command->add_option("--nodes", flags->nodes, "How many logical nodes: node-0, node-1, ...")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--network", flags->network,
                   "namespaces: a network for each pod (root); loopback: an address 127.x.y.z each")
      ->check(CLI::IsMember({"auto", "namespaces", "loopback"}))
      ->capture_default_str();
  command->add_option("--source-dir", flags->source_dirs,
                      "Directories that SampleSets may import from by file:///PATH");
  command->add_flag("--api-only", flags->api_only, "Run the API server alone");
  command->add_option("--log-level", flags->log_level, "debug, info, warn or error")
      ->capture_default_str();
  command->callback([flags, &run] {
    run = [flags] {
      // Many threads, each with little to do: an arena for each would hold memory that nobody uses.
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
