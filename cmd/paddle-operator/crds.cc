#include <CLI/CLI.hpp>
#include <iostream>

#include "api/batch/crd.h"
#include "commands.h"

namespace paddleop::cmd {

void AddCrds(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("crds", "Print the CustomResourceDefinitions, for kubectl apply -f -");
  command->callback([&run] {
    run = [] {
      std::cout << api::CrdManifest() << std::flush;
      return std::cout ? 0 : 1;
    };
  });
}

}  // namespace paddleop::cmd
