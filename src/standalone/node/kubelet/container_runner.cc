#include "standalone/node/kubelet/container_runner.h"

#include <algorithm>
#include <filesystem>

#include "base/posix.h"

namespace paddleop::standalone::node {
namespace {

namespace fs = std::filesystem;
using State = ContainerView::State;

constexpr int kKeptRuns = 2;  // the last one, and the one before for `logs --previous`

api::Time Seconds(WallTime time) { return std::chrono::floor<std::chrono::seconds>(time); }

int HighestRun(const std::string& directory) {
  int highest = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    highest = std::max(highest, std::atoi(entry.path().filename().c_str()));
  return highest;
}

}  // namespace

ContainerRunner::ContainerRunner(const ContainerSpec& spec, std::string pod_uid,
                                 std::string directory, RestartDelays delays)
    : pod_uid_(std::move(pod_uid)), directory_(std::move(directory)), delays_(delays) {
  view_.name = spec.name;
  view_.image = spec.image;
  Load();
}

std::string ContainerRunner::RunDirectory() const { return fmt::format("{}/{}", directory_, run_); }

void ContainerRunner::Load() {
  run_ = HighestRun(directory_);
  if (run_ == 0) return;
  failures_ = run_ - 1;
  view_.restarts = run_ - 1;
  view_.id = fmt::format("process://{}/{}/{}", pod_uid_, view_.name, run_);
  process_ = ReadState(RunDirectory());
  if (run_ > 1) {
    const std::string before = fmt::format("{}/{}", directory_, run_ - 1);
    if (const auto exit = ReadExit(before)) view_.last = TerminationOf(*exit, ReadState(before));
  }
  view_.state = State::kRunning;
  if (process_) view_.started_at = Seconds(process_->started);
  Observe();
}

Termination ContainerRunner::TerminationOf(const ProcessExit& exit,
                                           const std::optional<ProcessState>& state) const {
  Termination out{.code = exit.code,
                  .reason = exit.code == 0 ? "Completed" : "Error",
                  .message = exit.message,
                  .finished = Seconds(exit.finished),
                  .id = view_.id};
  out.started = state ? Seconds(state->started) : out.finished;
  if (exit.start_failed) out.reason = "StartError";
  return out;
}

void ContainerRunner::Observe() {
  if (!running()) return;
  auto exit = ReadExit(RunDirectory());
  if (!exit) {
    if (process_ && process_->shim.Alive()) return;
    exit = ReadExit(RunDirectory());  // written between the two looks
  }
  if (exit) {
    view_.ended = TerminationOf(*exit, process_);
  } else {
    // The machine was restarted, or somebody killed the shim: how the command ended is not known.
    const WallTime now = std::chrono::system_clock::now();
    ProcessExit unknown{.code = 137, .finished = now};
    unknown.message = "the container's process is gone and left no exit status";
    (void)WriteExit(RunDirectory(), unknown);
    view_.ended = TerminationOf(unknown, process_);
    view_.ended.reason = "ContainerStatusUnknown";
  }
  view_.state = State::kTerminated;
  view_.ready = false;
  view_.started = false;
  if (process_ && view_.ended.finished - Seconds(process_->started) >= delays_.forgiven_after)
    failures_ = 0;
}

Result<void> ContainerRunner::Start(const Context& ctx, const std::string& program, ShimSpec spec) {
  if (ended()) {
    view_.last = view_.ended;
    ++failures_;
  } else if (run_ > 0 && view_.state == State::kWaiting && view_.last) {
    ++failures_;
  }
  ++run_;
  view_.restarts = run_ - 1;
  view_.id = fmt::format("process://{}/{}/{}", pod_uid_, view_.name, run_);
  std::error_code error;
  if (run_ > kKeptRuns) fs::remove_all(fmt::format("{}/{}", directory_, run_ - kKeptRuns), error);
  spec.directory = RunDirectory();
  auto started = StartContainer(ctx, program, spec);
  view_.state = State::kRunning;
  view_.reason.clear();
  view_.message.clear();
  if (!started) {
    if (!ReadExit(spec.directory)) {
      (void)MakeDirectories(spec.directory);
      RETURN_IF_ERROR(WriteExit(spec.directory, {.code = 128,
                                                 .finished = std::chrono::system_clock::now(),
                                                 .start_failed = true,
                                                 .message = started.error().message()}));
    }
    process_.reset();
    Observe();
    return std::unexpected(std::move(started).error());
  }
  process_ = *started;
  view_.started_at = Seconds(process_->started);
  return {};
}

void ContainerRunner::Terminate() {
  if (running() && process_) TerminateContainer(*process_);
}

void ContainerRunner::Kill() {
  if (running() && process_) KillContainer(*process_);
}

bool ContainerRunner::WantsRestart(RestartPolicy policy) const {
  const bool over = ended() || (view_.state == State::kWaiting && view_.last);
  if (!over) return false;
  if (policy == RestartPolicy::kAlways) return true;
  const int code = ended() ? view_.ended.code : view_.last->code;
  return policy == RestartPolicy::kOnFailure && code != 0;
}

std::optional<WallTime> ContainerRunner::RestartAt() const {
  if (failures_ == 0) return std::nullopt;
  const Termination& last = ended() ? view_.ended : *view_.last;
  auto delay = delays_.first;
  for (int i = 1; i < failures_ && delay < delays_.most; ++i) delay *= 2;
  return WallTime(last.finished) + std::min(delay, delays_.most);
}

void ContainerRunner::SetWaiting(std::string reason, std::string message) {
  if (ended()) view_.last = view_.ended;
  view_.state = State::kWaiting;
  view_.reason = std::move(reason);
  view_.message = std::move(message);
}

}  // namespace paddleop::standalone::node
