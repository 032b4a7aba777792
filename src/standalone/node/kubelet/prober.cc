#include "standalone/node/kubelet/prober.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/thread_pool.h"
#include "net/http_client.h"
#include "net/stream.h"
#include "standalone/node/process/container_process.h"

namespace paddleop::standalone::node {
namespace {

Result<int> PortOf(const Probe& probe, const ProbeTarget& target) {
  for (const auto& [name, number] : target.ports) {
    if (!name.empty() && name == probe.port) return number;
  }
  const int number = std::atoi(probe.port.c_str());
  if (number < 1 || number > 65535)
    return Fail(Code::kInvalid, "probe port {} is not one of the container's", probe.port);
  return number;
}

Result<void> ProbeHttp(const Context& ctx, const Probe& probe, const ProbeTarget& target) {
  ASSIGN_OR_RETURN(const int port, PortOf(probe, target));
  net::HttpClientOptions options;
  options.tls.insecure_skip_verify = true;  // as a kubelet: the probe asks for life, not identity
  options.user_agent = "kube-probe/paddle-operator";
  options.max_response_bytes = 10 << 10;
  ASSIGN_OR_RETURN(auto client, net::HttpClient::Create(std::move(options)));
  net::HttpRequest request;
  request.url = fmt::format("{}://{}:{}{}{}", probe.https ? "https" : "http",
                            probe.host.empty() ? target.ip : probe.host, port,
                            probe.path.starts_with("/") ? "" : "/", probe.path);
  for (const auto& [name, value] : probe.headers) request.headers.Add(name, value);
  ASSIGN_OR_RETURN(const auto response, client->Do(ctx, std::move(request)));
  if (response.status >= 200 && response.status < 400) return {};
  return Fail(Code::kUnavailable, "HTTP probe failed with statuscode: {}", response.status);
}

Result<void> ProbeTcp(const Context& ctx, const Probe& probe, const ProbeTarget& target) {
  ASSIGN_OR_RETURN(const int port, PortOf(probe, target));
  net::DialOptions options;
  options.host = probe.host.empty() ? target.ip : probe.host;
  options.port = static_cast<std::uint16_t>(port);
  options.connect_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(probe.timeout);
  ASSIGN_OR_RETURN(const auto stream, net::Dial(ctx, options));
  return {};
}

Result<void> ProbeExec(const Context& ctx, const Probe& probe, const ProbeTarget& target) {
  ASSIGN_OR_RETURN(const UniqueFd null, OpenFile("/dev/null", O_RDWR | O_CLOEXEC));
  const ExecSpec spec{.pid = target.process.first,
                      .namespaces = target.namespaces,
                      .tty = false,
                      .argv = probe.command};
  ASSIGN_OR_RETURN(const pid_t pid,
                   SpawnExec(target.program, spec, null.get(), null.get(), null.get()));
  int status = 0;
  Result<void> stopped;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    stopped = ctx.Check();
    if (!stopped) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return Fail(Code::kDeadline, "probe command timed out after {} s", probe.timeout.count());
    }
    (void)Clock::System().SleepFor(ctx, std::chrono::milliseconds(10));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Fail(Code::kUnavailable, "probe command ended with {}",
              WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace

Result<void> RunProbe(const Context& ctx, const Probe& probe, const ProbeTarget& target) {
  const Context limited = ctx.WithTimeout(probe.timeout);
  switch (probe.kind) {
    case Probe::Kind::kExec:
      return ProbeExec(limited, probe, target);
    case Probe::Kind::kHttp:
      return ProbeHttp(limited, probe, target);
    case Probe::Kind::kTcp:
      return ProbeTcp(limited, probe, target);
    case Probe::Kind::kUnsupported:
      break;
  }
  return Fail(Code::kNotSupported, "only exec, httpGet and tcpSocket probes are supported");
}

struct Prober::State {
  mutable Mutex mutex;
  std::string reason GUARDED_BY(mutex);
};

Prober::Prober(Probe probe, ProbeTarget target, std::function<void()> changed)
    : probe_(std::move(probe)),
      target_(std::move(target)),
      changed_(std::move(changed)),
      state_(std::make_unique<State>()),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Prober::~Prober() = default;

std::string Prober::reason() const {
  const MutexLock lock(state_->mutex);
  return state_->reason;
}

void Prober::Run(const std::stop_token& stop) {
  SetThreadName("probe");
  const Context ctx = Context::Background().WithStop(stop);
  Clock& clock = Clock::System();
  if (!clock.SleepFor(ctx, probe_.initial_delay)) return;
  int good = 0;
  int bad = 0;
  do {
    const auto result = RunProbe(ctx, probe_, target_);
    if (stop.stop_requested()) return;
    good = result ? good + 1 : 0;
    bad = result ? 0 : bad + 1;
    Verdict next = verdict_;
    if (good >= probe_.success_threshold) next = Verdict::kGood;
    if (bad >= probe_.failure_threshold) next = Verdict::kBad;
    if (!result) {
      const MutexLock lock(state_->mutex);
      state_->reason = result.error().message();
    }
    if (next != verdict_.exchange(next)) changed_();
  } while (clock.SleepFor(ctx, probe_.period));
}

}  // namespace paddleop::standalone::node
