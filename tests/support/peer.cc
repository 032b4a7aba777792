#include "support/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <thread>

extern char** environ;

namespace paddleop::testing {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoFail("pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Starts `argv`; descriptors below zero are inherited.
Result<pid_t> Spawn(const std::vector<std::string>& argv,
                    const std::vector<std::string>& extra_environment, int in, int out, int err) {
  std::vector<char*> arguments;
  for (const auto& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> environment;
  for (const auto& e : extra_environment) environment.push_back(const_cast<char*>(e.c_str()));
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (in >= 0) posix_spawn_file_actions_adddup2(&actions, in, 0);
  if (out >= 0) posix_spawn_file_actions_adddup2(&actions, out, 1);
  if (err >= 0) posix_spawn_file_actions_adddup2(&actions, err, 2);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::unexpected(ErrnoStatus(error, "start " + argv[0]));
  return pid;
}

Result<std::string> ReadLine(int fd, std::chrono::steady_clock::time_point deadline) {
  std::string line;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Fail(Code::kDeadline, "the peer said nothing in time");
    pollfd waiting{fd, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) continue;
    char c = 0;
    const ssize_t n = ::read(fd, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Fail(Code::kUnavailable, "the peer ended; its messages are above");
    if (c == '\n') return line;
    line.push_back(c);
  }
}

constexpr auto kStartTimeout = std::chrono::minutes(10);
constexpr auto kCommandTimeout = std::chrono::minutes(1);

std::string PeerProgram() { return SourceDir() + "/tests/peers/peer"; }

}  // namespace

std::string SourceDir() { return GetEnv("PADDLEOP_SOURCE_DIR", "."); }
std::string BinDir() { return GetEnv("PADDLEOP_BIN_DIR", "build/dev/bin"); }

void SleepBriefly(std::chrono::milliseconds duration) { std::this_thread::sleep_for(duration); }

Result<Peer> Peer::Start(std::string_view name, const std::vector<std::string>& args) {
  std::vector<std::string> argv = {PeerProgram(), "serve", std::string(name)};
  argv.insert(argv.end(), args.begin(), args.end());
  ASSIGN_OR_RETURN(Pipe in, MakePipe());
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  Peer peer;
  ASSIGN_OR_RETURN(peer.pid_, Spawn(argv, {}, in.read.get(), out.write.get(), -1));
  peer.to_ = std::move(in.write);
  peer.from_ = std::move(out.read);
  out.write.Reset();
  in.read.Reset();
  auto line = ReadLine(peer.from_.get(), std::chrono::steady_clock::now() + kStartTimeout);
  if (!line) return std::unexpected(line.error().Wrap("start peer " + std::string(name)));
  auto description = nlohmann::json::parse(*line, nullptr, false);
  if (!description.is_object()) return Fail(Code::kInternal, "peer {} said: {}", name, *line);
  peer.description_ = std::make_unique<nlohmann::json>(std::move(description));
  return peer;
}

Result<std::string> Peer::Path(std::string_view name) {
  ASSIGN_OR_RETURN(auto got,
                   RunProcess({PeerProgram(), "path", std::string(name)}, {},
                              std::chrono::duration_cast<std::chrono::seconds>(kStartTimeout)));
  if (got.exit_code != 0) return Fail(Code::kUnavailable, "peer {}: {}", name, got.err);
  while (got.out.ends_with('\n')) got.out.pop_back();
  return got.out;
}

Peer::Peer(Peer&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      to_(std::move(other.to_)),
      from_(std::move(other.from_)),
      description_(std::move(other.description_)) {}

Peer& Peer::operator=(Peer&& other) noexcept {
  if (this != &other) {
    Stop();
    pid_ = std::exchange(other.pid_, -1);
    to_ = std::move(other.to_);
    from_ = std::move(other.from_);
    description_ = std::move(other.description_);
  }
  return *this;
}

Peer::~Peer() { Stop(); }

void Peer::Stop() {
  if (pid_ < 0) return;
  to_.Reset();
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string Peer::Get(const std::string& key) const {
  const auto found = description_->find(key);
  if (found == description_->end()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

Result<void> Peer::Command(std::string_view line) {
  RETURN_IF_ERROR(WriteAll(to_.get(), std::string(line) + "\n"));
  ASSIGN_OR_RETURN(auto answer,
                   ReadLine(from_.get(), std::chrono::steady_clock::now() + kCommandTimeout));
  const auto parsed = nlohmann::json::parse(answer, nullptr, false);
  if (!parsed.is_object() || !parsed.value("ok", false))
    return Fail(Code::kInternal, "{}: {}", line, answer);
  return {};
}

Result<ProcessResult> RunProcess(const std::vector<std::string>& argv,
                                 const std::vector<std::string>& extra_environment,
                                 std::chrono::seconds timeout, std::string_view input) {
  ASSIGN_OR_RETURN(Pipe in, MakePipe());
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe err, MakePipe());
  ASSIGN_OR_RETURN(pid_t pid,
                   Spawn(argv, extra_environment, in.read.get(), out.write.get(), err.write.get()));
  in.read.Reset();
  out.write.Reset();
  err.write.Reset();
  // Input is small (a manifest); a pipe holds it whole.
  if (auto written = WriteAll(in.write.get(), input); !written && !input.empty()) {
    ::kill(pid, SIGKILL);
  }
  in.write.Reset();

  ProcessResult result;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::array<pollfd, 2> open = {pollfd{out.read.get(), POLLIN, 0},
                                pollfd{err.read.get(), POLLIN, 0}};
  std::array<std::string*, 2> sinks = {&result.out, &result.err};
  bool late = false;
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      late = true;
      ::kill(pid, SIGKILL);
      break;
    }
    if (::poll(open.data(), open.size(), static_cast<int>(left.count())) <= 0) continue;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open[i].fd < 0 || open[i].revents == 0) continue;
      char buffer[16384];
      const ssize_t n = ::read(open[i].fd, buffer, sizeof(buffer));
      if (n > 0) {
        sinks[i]->append(buffer, static_cast<std::size_t>(n));
      } else if (n == 0 || errno != EINTR) {
        open[i].fd = -1;
      }
    }
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (late) {
    return Fail(Code::kDeadline, "{} did not end within {} s: {}{}", argv[0], timeout.count(),
                result.out, result.err);
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace paddleop::testing
