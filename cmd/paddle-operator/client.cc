// The flags of apply, get, describe, logs and delete.
#include <CLI/CLI.hpp>

#include "api_client.h"
#include "commands.h"

namespace paddleop::cmd {
namespace {

using Flags = std::shared_ptr<ClientFlags>;

CLI::App* Add(CLI::App& app, Run& run, const char* name, const char* help, const Flags& flags,
              int (*work)(const ClientFlags&)) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("--kubeconfig", flags->kubeconfig,
                      "Default: $KUBECONFIG, the pod's identity, or ~/.kube/config");
  command->add_option("--context", flags->context, "Context of the kubeconfig");
  command->add_option("-n,--namespace", flags->ns, "Default: that of the kubeconfig");
  command->callback([flags, work, &run] { run = [flags, work] { return work(*flags); }; });
  return command;
}

}  // namespace

void AddClient(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ClientFlags>();
  CLI::App* apply = Add(app, run, "apply", "Create or change what files say", flags, RunApply);
  apply->add_option("-f,--filename", flags->files, "YAML or JSON; - is standard input")->required();

  CLI::App* get = Add(app, run, "get", "List objects", flags, RunGet);
  get->add_option("resource", flags->words, "RESOURCE [NAME...]")->required();
  get->add_flag("-A,--all-namespaces", flags->all_namespaces, "Of all namespaces");
  get->add_option("-o,--output", flags->output, "wide, yaml, json or name")
      ->check(CLI::IsMember({"wide", "yaml", "json", "name"}));
  get->add_option("-l,--selector", flags->selector, "Only those with these labels: a=b,c!=d");
  get->add_flag("-w,--watch", flags->watch, "Go on with what changes");

  CLI::App* describe =
      Add(app, run, "describe", "Show objects and their events", flags, RunDescribe);
  describe->add_option("resource", flags->words, "RESOURCE [NAME...]")->required();

  CLI::App* logs = Add(app, run, "logs", "Print what a container of a pod wrote", flags, RunLogs);
  logs->add_option("pod", flags->words, "POD")->required()->expected(1);
  logs->add_option("-c,--container", flags->container, "Which one, if there are several");
  logs->add_flag("-f,--follow", flags->follow, "Go on as it writes");
  logs->add_flag("-p,--previous", flags->previous, "Of the run before this one");
  logs->add_option("--tail", flags->tail, "The last lines only");

  CLI::App* remove = Add(app, run, "delete", "Delete objects", flags, RunDelete);
  remove->add_option("resource", flags->words, "RESOURCE NAME...");
  remove->add_option("-f,--filename", flags->files, "What these files name");
  remove->add_flag("--no-wait", flags->no_wait, "Do not wait until they are gone");
}

}  // namespace paddleop::cmd
