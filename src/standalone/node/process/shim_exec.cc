#include "standalone/node/process/shim_exec.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "base/posix.h"

namespace paddleop::standalone::node {
namespace {

constexpr char kDefaultPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr int kNotFound = 127;
constexpr int kNotRunnable = 126;

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// The program's file, found as a shell would with the container's own PATH.
Result<std::string> FindProgram(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) return name;
  std::istringstream directories{std::string(path)};
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string file = (directory.empty() ? "." : directory) + "/" + name;
    struct stat st{};
    if (::stat(file.c_str(), &st) == 0 && S_ISREG(st.st_mode) && ::access(file.c_str(), X_OK) == 0)
      return file;
  }
  return Fail(Code::kNotFound, "exec: \"{}\": executable file not found in $PATH ({})", name, path);
}

using Environment = std::vector<std::pair<std::string, std::string>>;

Environment EnvironmentOf(pid_t pid) {
  Environment out;
  const auto text = ReadFile(fmt::format("/proc/{}/environ", pid));
  if (!text) return out;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos)
      out.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return out;
}

// The command itself is the first child of the container's first process.
pid_t CommandOf(const ExecSpec& spec) {
  if (!spec.namespaces) return spec.pid;
  const auto text = ReadFile(fmt::format("/proc/{0}/task/{0}/children", spec.pid));
  const int child = text ? std::atoi(text->c_str()) : 0;
  return child > 0 ? child : spec.pid;
}

std::string WorkingDirectoryOf(pid_t pid) {
  char buffer[4096];
  const ssize_t n = ::readlink(fmt::format("/proc/{}/cwd", pid).c_str(), buffer, sizeof buffer);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : "/";
}

}  // namespace

Result<void> JoinContainer(pid_t pid) {
  // All are opened first: after the mount namespace /proc is another one.
  std::vector<std::pair<UniqueFd, int>> spaces;
  constexpr std::pair<const char*, int> kSpaces[] = {
      {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET}, {"uts", CLONE_NEWUTS}, {"mnt", CLONE_NEWNS}};
  for (const auto& [name, flag] : kSpaces) {
    ASSIGN_OR_RETURN(UniqueFd fd,
                     OpenFile(fmt::format("/proc/{}/ns/{}", pid, name), O_RDONLY | O_CLOEXEC));
    spaces.emplace_back(std::move(fd), flag);
  }
  ASSIGN_OR_RETURN(const UniqueFd root,
                   OpenFile(fmt::format("/proc/{}/root", pid), O_PATH | O_CLOEXEC));
  for (const auto& [fd, flag] : spaces) {
    if (::setns(fd.get(), flag) != 0) return ErrnoFail("enter the container's namespaces");
  }
  if (::fchdir(root.get()) != 0 || ::chroot(".") != 0) return ErrnoFail("enter the container");
  return {};
}

Status ExecCommand(const std::vector<std::string>& argv, const Environment& env,
                   const std::string& cwd) {
  if (::chdir(cwd.c_str()) != 0)
    return ErrnoStatus(errno, fmt::format("working directory {}", cwd));
  std::string path = kDefaultPath;
  std::vector<std::string> entries;
  entries.reserve(env.size());
  for (const auto& [name, value] : env) {
    entries.push_back(fmt::format("{}={}", name, value));
    if (name == "PATH") path = value;
  }
  auto program = FindProgram(argv.front(), path);
  if (!program) return program.error();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  std::vector<std::string> words = argv;
  ::execve(program->c_str(), Pointers(words).data(), Pointers(entries).data());
  return ErrnoStatus(errno, fmt::format("exec: \"{}\"", argv.front()));
}

int ExecInContainer(const ExecSpec& spec) {
  const pid_t command = CommandOf(spec);
  Environment env = EnvironmentOf(command);
  const std::string cwd = WorkingDirectoryOf(command);
  if (spec.tty) env.emplace_back("TERM", "xterm");
  if (spec.namespaces) {
    if (auto joined = JoinContainer(spec.pid); !joined) {
      std::cerr << joined.error().message() << "\n";
      return kNotRunnable;
    }
  }
  const pid_t child = ::fork();
  if (child < 0) return kNotRunnable;
  if (child == 0) {
    // Whoever asked for it has gone when we are killed.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (spec.tty) {
      ::setsid();
      ::ioctl(0, TIOCSCTTY, 0);
    }
    const Status failed = ExecCommand(spec.argv, env, cwd);
    std::cerr << failed.message() << '\n' << std::flush;
    ::_exit(failed.code() == Code::kNotFound ? kNotFound : kNotRunnable);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace paddleop::standalone::node
