#include "common/command.h"

#include <CLI/CLI.hpp>
#include <iostream>

namespace paddleop::cmd {

struct Command::State {
  std::unique_ptr<CLI::App> owned;  // only of the program itself
  CLI::App* app = nullptr;
  std::shared_ptr<int> exit_code;
};

Command::Command(std::string name, const std::string& description, const std::string& version)
    : state_(std::make_unique<State>()) {
  state_->owned = std::make_unique<CLI::App>(description, std::move(name));
  state_->app = state_->owned.get();
  state_->exit_code = std::make_shared<int>(kExitDone);
  state_->app->set_version_flag("--version", version);
  state_->app->require_subcommand(1);
}

Command::Command(std::unique_ptr<State> state) : state_(std::move(state)) {}
Command::~Command() = default;
Command::Command(Command&&) noexcept = default;

Command Command::AddCommand(const std::string& name, const std::string& description,
                            std::function<int()> run) {
  auto sub = std::make_unique<State>();
  sub->app = state_->app->add_subcommand(name, description);
  sub->exit_code = state_->exit_code;
  sub->app->callback([run = std::move(run), code = state_->exit_code] { *code = run(); });
  return Command(std::move(sub));
}

void Command::AddFlag(const std::string& names, bool* target, const std::string& help) {
  state_->app->add_flag(names, *target, help);
}
void Command::AddOption(const std::string& names, std::string* target, const std::string& help) {
  state_->app->add_option(names, *target, help)->capture_default_str();
}
void Command::AddOption(const std::string& names, std::int64_t* target, const std::string& help) {
  state_->app->add_option(names, *target, help)->capture_default_str();
}
void Command::AddOption(const std::string& names, double* target, const std::string& help) {
  state_->app->add_option(names, *target, help)->capture_default_str();
}
void Command::AddOption(const std::string& names, std::vector<std::string>* target,
                        const std::string& help) {
  state_->app->add_option(names, *target, help)->allow_extra_args(false);
}
void Command::AddOption(const std::string& names,
                        const std::function<void(const std::string&)>& take,
                        const std::string& help) {
  state_->app->add_option_function<std::string>(names, take, help)->trigger_on_parse();
}
void Command::AddArgument(const std::string& name, std::string* target, const std::string& help,
                          bool required) {
  state_->app->add_option(name, *target, help)->required(required);
}
void Command::AddArguments(const std::string& name, std::vector<std::string>* target,
                           const std::string& help, bool required) {
  state_->app->add_option(name, *target, help)->required(required);
}

int Command::Run(int argc, char** argv) {
  try {
    state_->app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are "errors" of code 0 to the library.
    const int code = state_->app->exit(error, std::cout, std::cerr);
    return code == 0 ? kExitDone : kExitUsage;
  }
  return *state_->exit_code;
}

}  // namespace paddleop::cmd
