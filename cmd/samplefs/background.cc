#include "samplefs/background.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/posix.h"

namespace paddleop::cmd {
namespace {

constexpr char kReadyVariable[] = "SAMPLEFS_READY_FD";

}  // namespace

bool IsBackgroundProcess() { return !GetEnv(kReadyVariable).empty(); }

Result<std::vector<std::string>> OwnArguments() {
  ASSIGN_OR_RETURN(const std::string text, ReadFile("/proc/self/cmdline"));
  std::vector<std::string> arguments;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return arguments;
}

Result<int> StartInBackground(const Context& ctx, const std::vector<std::string>& arguments) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return ErrnoFail("pipe");
  UniqueFd from(pipe_ends[0]), to(pipe_ends[1]);
  std::vector<char*> argv;
  std::vector<std::string> words = arguments;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // Prepared before the fork: the child of a process with threads may do little.
  ::setenv(kReadyVariable, std::to_string(to.get()).c_str(), 1);
  const pid_t child = ::fork();
  if (child < 0) return ErrnoFail("fork");
  if (child == 0) {
    ::setsid();
    ::fcntl(to.get(), F_SETFD, 0);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  to.Reset();
  char answer = 0;
  ssize_t got = -1;
  bool stopped = false;
  while (got < 0) {
    if (ctx.Stopped() && !std::exchange(stopped, true)) ::kill(child, SIGTERM);
    pollfd wait{.fd = from.get(), .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, 100) > 0) got = ::read(from.get(), &answer, 1);
  }
  if (got == 1) return 0;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return Fail(Code::kUnavailable, "the process in the background was ended by signal {} ({})",
              signal, ::strsignal(signal));
}

Result<UniqueFd> OpenLog(const std::string& log_file) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(log_file).parent_path(), ignored);
  UniqueFd log(::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (!log.valid()) return ErrnoFail("open the log file {}", log_file);
  return log;
}

Result<void> SayReady(const UniqueFd& log) {
  const UniqueFd told(std::atoi(GetEnv(kReadyVariable).c_str()));
  ::unsetenv(kReadyVariable);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(null.get(), 0);
  ::dup2(null.get(), 1);
  ::dup2(log.get(), 2);
  if (::write(told.get(), "r", 1) != 1) return ErrnoFail("tell that the mount is ready");
  return {};
}

}  // namespace paddleop::cmd
