#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paddleop::cmd {

// Exit codes of all programs.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitPartly = 3;  // some files failed, the others are done

// A program's command line: sub-commands with flags, options and positional arguments. Hides the
// parsing library, which is slow to compile, from the files that use it.
class Command {
 public:
  Command(std::string name, const std::string& description, const std::string& version);
  ~Command();
  Command(Command&&) noexcept;

  // A sub-command; `run` is called after its line was parsed and returns the exit code.
  Command AddCommand(const std::string& name, const std::string& description,
                     std::function<int()> run);

  // Names as "--read-only" or "-d,--background"; `help` says what it does, and the default is shown
  // beside it. The targets must live until Run returns.
  void AddFlag(const std::string& names, bool* target, const std::string& help);
  void AddOption(const std::string& names, std::string* target, const std::string& help);
  void AddOption(const std::string& names, std::int64_t* target, const std::string& help);
  void AddOption(const std::string& names, double* target, const std::string& help);
  void AddOption(const std::string& names, std::vector<std::string>* target,
                 const std::string& help);
  // `take` is called for each occurrence, in the order of the command line: for options whose order
  // among others matters.
  void AddOption(const std::string& names, const std::function<void(const std::string&)>& take,
                 const std::string& help);
  void AddArgument(const std::string& name, std::string* target, const std::string& help,
                   bool required = true);
  // All that is left on the line.
  void AddArguments(const std::string& name, std::vector<std::string>* target,
                    const std::string& help, bool required = true);

  // Parses and runs. Wrong usage prints what was wrong and returns kExitUsage.
  int Run(int argc, char** argv);

 private:
  struct State;
  explicit Command(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paddleop::cmd
