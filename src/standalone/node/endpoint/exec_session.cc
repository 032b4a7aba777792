#include "standalone/node/endpoint/exec_session.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/posix.h"
#include "standalone/node/process/container_process.h"

namespace paddleop::standalone::node {
namespace {

using Json = nlohmann::json;

struct Streams {
  UniqueFd in;   // what we write to
  UniqueFd out;  // what we read from; with a terminal the same device
  UniqueFd err;
};

Result<std::pair<UniqueFd, UniqueFd>> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoFail("make a pipe");
  // Above the numbers that the child's streams get.
  UniqueFd read(::fcntl(fds[0], F_DUPFD_CLOEXEC, 10));
  UniqueFd write(::fcntl(fds[1], F_DUPFD_CLOEXEC, 10));
  ::close(fds[0]);
  ::close(fds[1]);
  return std::pair(std::move(read), std::move(write));
}

Result<pid_t> StartWithTerminal(const std::string& program, const ExecSpec& spec,
                                Streams& streams) {
  int primary = -1;
  int replica = -1;
  if (::openpty(&primary, &replica, nullptr, nullptr, nullptr) != 0)
    return ErrnoFail("open a terminal");
  const UniqueFd child(::fcntl(replica, F_DUPFD_CLOEXEC, 10));
  ::close(replica);
  ::fcntl(primary, F_SETFD, FD_CLOEXEC);
  streams.out = UniqueFd(primary);
  streams.in = UniqueFd(::fcntl(primary, F_DUPFD_CLOEXEC, 10));
  return SpawnExec(program, spec, child.get(), child.get(), child.get());
}

Result<pid_t> StartWithPipes(const std::string& program, const ExecSpec& spec, bool input,
                             Streams& streams) {
  ASSIGN_OR_RETURN(auto in, MakePipe());
  ASSIGN_OR_RETURN(auto out, MakePipe());
  ASSIGN_OR_RETURN(auto err, MakePipe());
  ASSIGN_OR_RETURN(const pid_t pid,
                   SpawnExec(program, spec, in.first.get(), out.second.get(), err.second.get()));
  streams.in = input ? std::move(in.second) : UniqueFd();
  streams.out = std::move(out.first);
  streams.err = std::move(err.first);
  return pid;
}

void Resize(int terminal, std::string_view text) {
  const Json size = Json::parse(text, nullptr, false);
  if (!size.is_object()) return;
  winsize window{};
  window.ws_col = static_cast<unsigned short>(size.value("Width", 80));
  window.ws_row = static_cast<unsigned short>(size.value("Height", 24));
  ::ioctl(terminal, TIOCSWINSZ, &window);
}

// From the client to the command, until one of them ends.
void CopyInput(const Context& ctx, ExecClient& client, Streams& streams, bool tty) {
  for (;;) {
    const auto input = client.Receive(ctx);
    if (!input) return;
    if (input->stream == ExecStream::kStdin && streams.in.valid()) {
      if (!WriteAll(streams.in.get(), input->bytes) || input->ended) streams.in.Reset();
    } else if (input->stream == ExecStream::kResize && tty) {
      Resize(streams.out.get(), input->bytes);
    }
  }
}

// From the command to the client, until the command has closed its streams.
void CopyOutput(const Context& ctx, ExecClient& client, const Streams& streams) {
  pollfd fds[] = {{streams.out.get(), POLLIN, 0}, {streams.err.get(), POLLIN, 0}};
  std::string buffer(16 << 10, '\0');
  while ((fds[0].fd >= 0 || fds[1].fd >= 0) && !ctx.Stopped()) {
    if (::poll(fds, 2, 200) < 0 && errno != EINTR) return;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      const ssize_t n = ::read(fds[i].fd, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {  // a terminal whose other side is closed gives EIO
        fds[i].fd = -1;
        continue;
      }
      const std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
      if (!client.Send(i == 0 ? ExecStream::kStdout : ExecStream::kStderr, bytes)) return;
    }
  }
}

int Reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::string ExecStatus(int exit_code) {
  if (exit_code == 0) return Json{{"metadata", Json::object()}, {"status", "Success"}}.dump();
  return Json{
      {"metadata", Json::object()},
      {"status", "Failure"},
      {"reason", "NonZeroExitCode"},
      {"message",
       fmt::format("command terminated with non-zero exit code: exit code {}", exit_code)},
      {"details", {{"causes", {{{"reason", "ExitCode"}, {"message", std::to_string(exit_code)}}}}}}}
      .dump();
}

void RunExecSession(const Context& ctx, const std::string& program, const ExecSpec& spec,
                    bool input, ExecClient& client) {
  Streams streams;
  const auto pid = spec.tty ? StartWithTerminal(program, spec, streams)
                            : StartWithPipes(program, spec, input, streams);
  if (!pid) {
    const Json status = {{"metadata", Json::object()},
                         {"status", "Failure"},
                         {"reason", "InternalError"},
                         {"message", pid.error().message()}};
    (void)client.Send(ExecStream::kError, status.dump());
    client.Close();
    return;
  }
  std::stop_source stop;
  const std::stop_callback also(ctx.stop(), [&] { stop.request_stop(); });
  const Context session = ctx.WithStop(stop.get_token());
  std::jthread reader([&] {
    CopyInput(session, client, streams, spec.tty);
    // Without a client nobody wants the command any more; one without input just listens.
    stop.request_stop();
  });
  CopyOutput(session, client, streams);
  if (session.Stopped()) ::kill(*pid, SIGTERM);
  const int code = Reap(*pid);
  (void)client.Send(ExecStream::kError, ExecStatus(code));
  stop.request_stop();
  reader.join();
  client.Close();
}

}  // namespace paddleop::standalone::node
