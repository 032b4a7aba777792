#include <CLI/CLI.hpp>

#include "commands.h"
#include "standalone/node/process/shim.h"

// NOLINTNEXTLINE(bugprone-exception-escape): for want of memory before anything has begun
int main(int argc, char** argv) {
  // The node agent starts this program again for each container, as the process that looks after
  // it.
  paddleop::standalone::node::ShimMain(argc, argv);
  CLI::App app("Distributed Paddle training jobs and their data on Kubernetes", "paddle-operator");
  app.set_version_flag("--version", PADDLEOP_VERSION);
  app.require_subcommand(1);
  paddleop::cmd::Run run;
  paddleop::cmd::AddManager(app, run);
  paddleop::cmd::AddStandalone(app, run);
  paddleop::cmd::AddNode(app, run);
  paddleop::cmd::AddCrds(app, run);
  paddleop::cmd::AddClient(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return run();
}
