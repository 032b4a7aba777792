#include "standalone/node/process/shim.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/posix.h"
#include "standalone/node/process/log_file.h"
#include "standalone/node/process/pod_root.h"
#include "standalone/node/process/process_files.h"
#include "standalone/node/process/remount.h"
#include "standalone/node/process/shim_exec.h"
#include "standalone/node/process/shim_spec.h"

namespace paddleop::standalone::node {
namespace {

constexpr int kReportFd = 3;
constexpr int kSetupFailed = 128;  // exit code of a container that could not be started

std::string ReadAll(int fd) {
  std::string out;
  char buffer[65536];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return out;
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoFail("make a pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

int ExitCodeOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// In the child that becomes the container's command. Does not return.
[[noreturn]] void BecomeCommand(const ShimSpec& spec, int failure) {
  ::setsid();
  const auto failed = ExecCommand(spec.argv, spec.env, spec.cwd);
  (void)WriteAll(failure, failed.message());
  ::_exit(kSetupFailed);
}

// Namespaces other than that of PIDs, which the caller has made us the first process of.
Result<void> EnterNamespaces(const ShimSpec& spec) {
  if (!spec.network.empty()) {
    ASSIGN_OR_RETURN(const UniqueFd network, OpenFile(spec.network, O_RDONLY | O_CLOEXEC));
    if (::setns(network.get(), CLONE_NEWNET) != 0) return ErrnoFail("enter {}", spec.network);
  }
  if (::unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0) return ErrnoFail("make namespaces");
  if (!spec.hostname.empty() && ::sethostname(spec.hostname.data(), spec.hostname.size()) != 0) {
    return ErrnoFail("set host name {}", spec.hostname);
  }
  return EnterPodRoot(spec);
}

// The first process of the container's PIDs: passes signals on to the command, buries orphans, and
// ends with the command's exit code, which ends all that is left.
[[noreturn]] void BecomeInit(const ShimSpec& spec, int failure) {
  if (auto entered = EnterNamespaces(spec); !entered) {
    (void)WriteAll(failure, entered.error().message());
    ::_exit(kSetupFailed);
  }
  const pid_t command = ::fork();
  if (command < 0) ::_exit(kSetupFailed);
  if (command == 0) BecomeCommand(spec, failure);
  ::close(failure);
  sigset_t all;
  sigfillset(&all);
  for (;;) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&all, &info);
    if (signal == SIGCHLD) {
      int status = 0;
      for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == command) ::_exit(ExitCodeOf(status));
      }
    } else if (signal > 0) {
      ::kill(command, signal);
    }
  }
}

class Shim {
 public:
  explicit Shim(ShimSpec spec) : spec_(std::move(spec)) {}

  // Runs the container from its start to its end. What is returned has been written to exit.json.
  ProcessExit Run() {
    auto started = Start();
    if (!started) return Ended(kSetupFailed, started.error().message());
    (void)WriteAll(kReportFd, "ok");
    ::close(kReportFd);
    Follow();
    return Ended(exit_code_, "");
  }

  Result<void> Start() {
    ASSIGN_OR_RETURN(log_, OpenLogFile());
    BlockSignals();
    ASSIGN_OR_RETURN(Pipe failure, MakePipe());
    ASSIGN_OR_RETURN(Pipe out, MakePipe());
    ASSIGN_OR_RETURN(Pipe err, MakePipe());
    if (spec_.namespaces && ::unshare(CLONE_NEWPID) != 0) return ErrnoFail("make a PID namespace");
    ASSIGN_OR_RETURN(Pipe alive, MakePipe());
    child_ = ::fork();
    if (child_ < 0) return ErrnoFail("fork");
    if (child_ == 0) Child(out, err, alive, failure);
    RETURN_IF_ERROR(WriteState(spec_.directory, {.shim = {.pid = ::getpid()}, .first = child_}));
    failure.write.Reset();
    out_ = std::move(out.read);
    err_ = std::move(err.read);
    const std::string why = ReadAll(failure.read.get());
    if (why.empty()) return {};
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    return Fail(Code::kInvalid, "{}", why);
  }

 private:
  Result<LogFile> OpenLogFile() { return LogFile::Open(spec_.directory + "/log", spec_.log_limit); }

  void BlockSignals() {
    sigset_t set;
    sigfillset(&set);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  [[noreturn]] void Child(Pipe& out, Pipe& err, Pipe& alive, Pipe& failure) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Did the shim end before we asked to end with it?
    alive.write.Reset();
    pollfd gone{alive.read.get(), 0, 0};
    if (::poll(&gone, 1, 0) > 0 && (gone.revents & POLLHUP) != 0) ::_exit(kSetupFailed);
    const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(null.get(), 0);
    ::dup2(out.write.get(), 1);
    ::dup2(err.write.get(), 2);
    ::close(kReportFd);
    const int fail = failure.write.get();
    if (spec_.namespaces) BecomeInit(spec_, fail);
    BecomeCommand(spec_, fail);
  }

  // Copies output until the container has ended.
  void Follow() {
    for (;;) {
      pollfd fds[] = {
          {signals_.get(), POLLIN, 0}, {out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
      if (::poll(fds, 3, -1) < 0 && errno != EINTR) break;
      if (fds[1].revents != 0) Copy(out_, "stdout");
      if (fds[2].revents != 0) Copy(err_, "stderr");
      if (fds[0].revents != 0 && OnSignals()) break;
    }
    // What it had written before it ended is still in the pipes; a background process that keeps
    // one open must not keep us.
    for (UniqueFd* fd : {&out_, &err_}) {
      if (fd->valid()) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
    }
    while (out_.valid() && Copy(out_, "stdout")) {
    }
    while (err_.valid() && Copy(err_, "stderr")) {
    }
    log_->Finish();
  }

  bool Copy(UniqueFd& fd, std::string_view stream) {
    char buffer[65536];
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) return true;
    if (n <= 0) {
      fd.Reset();  // poll() ignores -1
      return false;
    }
    log_->Feed(stream, {buffer, static_cast<std::size_t>(n)});
    return true;
  }

  // True when the container has ended.
  bool OnSignals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGCHLD) {
        int status = 0;
        if (::waitpid(child_, &status, WNOHANG) != child_) continue;
        exit_code_ = ExitCodeOf(status);
        if (!spec_.namespaces) ::kill(-child_, SIGKILL);  // what it left behind in its group
        return true;
      }
      if (info.ssi_signo == SIGUSR1) {  // the agent: at once
        ::kill(spec_.namespaces ? child_ : -child_, SIGKILL);
      } else if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) {
        ::kill(spec_.namespaces ? child_ : -child_, static_cast<int>(info.ssi_signo));
      }
    }
    return false;
  }

  ProcessExit Ended(int code, std::string message) {
    ProcessExit exit{.code = code,
                     .finished = std::chrono::system_clock::now(),
                     .start_failed = !message.empty(),
                     .message = std::move(message)};
    (void)WriteExit(spec_.directory, exit);
    return exit;
  }

  const ShimSpec spec_;
  std::optional<LogFile> log_;
  UniqueFd signals_;
  UniqueFd out_;
  UniqueFd err_;
  pid_t child_ = -1;
  int exit_code_ = 0;
};

int RunShim() {
  ::setsid();
  ::close_range(kReportFd + 1, ~0U, 0);
  ::fcntl(kReportFd, F_SETFD, FD_CLOEXEC);
  auto spec = ShimSpecFromText(ReadAll(0));
  if (!spec) {
    (void)WriteAll(kReportFd, spec.error().message());
    return 1;
  }
  const ProcessExit exit = Shim(*std::move(spec)).Run();
  if (exit.start_failed) (void)WriteAll(kReportFd, exit.message);
  return 0;
}

int RunExec() {
  auto spec = ExecSpecFromText(ReadAll(kReportFd));
  ::close_range(kReportFd, ~0U, 0);
  if (!spec) return 126;
  return ExecInContainer(*spec);
}

}  // namespace

void ShimMain(int argc, char** argv) {
  if (argc != 2) return;
  const std::string_view name = argv[1];
  if (name != kShimCommand && name != kExecCommand && name != kRemountCommand) return;
  const int code = name == kShimCommand   ? RunShim()
                   : name == kExecCommand ? RunExec()
                                          : RemountMain(ReadAll(0));
  // Nothing may run after this: a child's PID namespace is not the process's own by now, and what
  // a sanitized build does at its end waits for threads that it cannot start there.
  ::_exit(code);
}

}  // namespace paddleop::standalone::node
