#include "standalone/node/process/container_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "standalone/node/process/shim.h"

extern char** environ;

namespace paddleop::standalone::node {
namespace {

constexpr std::size_t kOutputLimit = 1 << 20;

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoFail("make a pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// posix_spawn with `fds[i]` as descriptor i of the child and default signals.
Result<pid_t> Spawn(const std::vector<std::string>& argv, const std::vector<int>& fds) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (std::size_t i = 0; i < fds.size(); ++i) {
    posix_spawn_file_actions_adddup2(&actions, fds[i], static_cast<int>(i));
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> words = argv;
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, argv.front().c_str(), &actions, &attributes, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return std::unexpected(ErrnoStatus(error, "start " + argv.front()));
  return pid;
}

// Reads to the end of the pipe; kDeadline or kCancelled if the caller's time is up before.
Result<std::string> ReadToEnd(const Context& ctx, int fd) {
  std::string out;
  char buffer[8192];
  for (;;) {
    RETURN_IF_ERROR(ctx.Check());
    pollfd poller{fd, POLLIN, 0};
    if (::poll(&poller, 1, 100) <= 0) continue;
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return out;
    if (out.size() < kOutputLimit) out.append(buffer, static_cast<std::size_t>(n));
  }
}

int Reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Numbers below these are the child's own; a pipe that happens to have one would be closed by dup2.
Result<UniqueFd> Above(const UniqueFd& fd) {
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 10));
  if (!copy.valid()) return ErrnoFail("copy a descriptor");
  return copy;
}

}  // namespace

Result<ProcessState> StartContainer(const Context& ctx, const std::string& program,
                                    const ShimSpec& spec) {
  RETURN_IF_ERROR(MakeDirectories(spec.directory));
  ASSIGN_OR_RETURN(Pipe input, MakePipe());
  ASSIGN_OR_RETURN(Pipe report, MakePipe());
  // What a shim itself has to say (never a container's output) is for whoever debugs it.
  ASSIGN_OR_RETURN(const UniqueFd own, OpenFile(spec.directory + "/shim.log",
                                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  ASSIGN_OR_RETURN(UniqueFd in, Above(input.read));
  ASSIGN_OR_RETURN(const UniqueFd out, Above(own));
  ASSIGN_OR_RETURN(UniqueFd reporter, Above(report.write));
  ASSIGN_OR_RETURN(const pid_t pid, Spawn({program, kShimCommand},
                                          {in.get(), out.get(), out.get(), reporter.get()}));
  input.read.Reset();
  report.write.Reset();
  in.Reset();
  reporter.Reset();
  auto written = WriteAll(input.write.get(), ToText(spec));
  input.write.Reset();
  auto answer = written ? ReadToEnd(ctx, report.read.get())
                        : Result<std::string>(std::unexpected(written.error()));
  if (answer && *answer == "ok") {
    if (auto state = ReadState(spec.directory)) return *state;
    return Fail(Code::kInternal, "{}/state.json cannot be read", spec.directory);
  }
  ::kill(pid, SIGKILL);
  Reap(pid);
  if (!answer) return std::unexpected(std::move(answer).error().Wrap("start a container"));
  if (answer->empty()) {
    return Fail(Code::kInternal, "the process of the container ended at once; see {}/shim.log",
                spec.directory);
  }
  return Fail(Code::kInvalid, "{}", *answer);
}

void TerminateContainer(const ProcessState& state) {
  if (state.shim.Alive()) ::kill(state.shim.pid, SIGTERM);
}

void KillContainer(const ProcessState& state) {
  if (state.shim.Alive()) ::kill(state.shim.pid, SIGUSR1);
}

Result<ProgramResult> RunProgram(const Context& ctx, const std::vector<std::string>& argv,
                                 std::string_view input) {
  ASSIGN_OR_RETURN(Pipe in, MakePipe());
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(UniqueFd child_in, Above(in.read));
  ASSIGN_OR_RETURN(UniqueFd child_out, Above(out.write));
  ASSIGN_OR_RETURN(const pid_t pid,
                   Spawn(argv, {child_in.get(), child_out.get(), child_out.get()}));
  in.read.Reset();
  out.write.Reset();
  child_in.Reset();
  child_out.Reset();
  (void)WriteAll(in.write.get(), input);  // a program that ends early says so by its exit code
  in.write.Reset();
  auto text = ReadToEnd(ctx, out.read.get());
  if (!text) {
    ::kill(pid, SIGKILL);
    Reap(pid);
    return std::unexpected(std::move(text).error().Wrap("run " + argv.front()));
  }
  return ProgramResult{.exit_code = Reap(pid), .output = *std::move(text)};
}

Result<pid_t> SpawnExec(const std::string& program, const ExecSpec& spec, int in, int out,
                        int err) {
  ASSIGN_OR_RETURN(Pipe input, MakePipe());
  ASSIGN_OR_RETURN(const UniqueFd told, Above(input.read));
  ASSIGN_OR_RETURN(const pid_t pid, Spawn({program, kExecCommand}, {in, out, err, told.get()}));
  RETURN_IF_ERROR(WriteAll(input.write.get(), ToText(spec)));
  return pid;
}

}  // namespace paddleop::standalone::node
