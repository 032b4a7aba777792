#include "runtime/server/internal/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "base/posix.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to us

namespace paddleop::runtime::internal {
namespace {

constexpr std::size_t kKeep = 16 << 10;
constexpr std::chrono::seconds kGrace{5};
constexpr int kPollMs = 100;

class SpawnSetup {
 public:
  SpawnSetup() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  ~SpawnSetup() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  // Own group, default signals, nothing to read, `output` for all that is written.
  void Prepare(int output) {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
  }
  posix_spawn_file_actions_t* actions() { return &actions_; }
  posix_spawnattr_t* attributes() { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Result<pid_t> Spawn(std::vector<std::string> argv, const std::vector<std::string>& extra,
                    int output) {
  std::vector<std::string> environment = extra;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry(*at);
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    bool replaced = false;
    for (const std::string& own : extra) replaced = replaced || own.starts_with(name);
    if (!replaced) environment.emplace_back(entry);
  }
  SpawnSetup setup;
  setup.Prepare(output);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0].c_str(), setup.actions(), setup.attributes(),
                                   Pointers(argv).data(), Pointers(environment).data());
  if (error != 0) return std::unexpected(ErrnoStatus(error, "start " + argv[0]));
  return pid;
}

// Reads what is there within a moment; false at the end.
bool Drain(int fd, std::string& kept, const std::function<void(std::string_view)>& on_output) {
  pollfd poll{.fd = fd, .events = POLLIN, .revents = 0};
  if (::poll(&poll, 1, kPollMs) <= 0) return true;
  char buffer[8192];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n <= 0) return n < 0 && errno == EINTR;
  const std::string_view piece(buffer, static_cast<std::size_t>(n));
  kept += piece;
  if (kept.size() > 2 * kKeep) kept.erase(0, kept.size() - kKeep);
  if (on_output) on_output(piece);
  return true;
}

}  // namespace

Result<ChildResult> RunChild(const Context& ctx, const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment,
                             const std::function<void(std::string_view)>& on_output) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoFail("pipe");
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(argv, environment, to.get()));
  to.Reset();
  ChildResult result;
  bool open = true;
  int status = 0;
  std::chrono::steady_clock::time_point told{};
  for (;;) {
    if (open) {
      open = Drain(from.get(), result.output, on_output);
    } else {
      ::poll(nullptr, 0, kPollMs);
    }
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) break;
    if (ctx.Check()) continue;
    const auto now = std::chrono::steady_clock::now();
    if (told == std::chrono::steady_clock::time_point{}) {
      ::kill(-pid, SIGTERM);
      told = now;
    } else if (now - told > kGrace) {
      ::kill(-pid, SIGKILL);
    }
  }
  // Grandchildren may hold the pipe; what the program itself wrote is read already or at hand.
  for (int i = 0; open && i < 64; ++i) {
    pollfd poll{.fd = from.get(), .events = POLLIN, .revents = 0};
    if (::poll(&poll, 1, 0) <= 0) break;
    open = Drain(from.get(), result.output, on_output);
  }
  RETURN_IF_ERROR(ctx.Check());
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace paddleop::runtime::internal
