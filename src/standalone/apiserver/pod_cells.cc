// The row of a pod, by the rules of kubectl's server-side printer: what its STATUS says is worked
// out from the states of its containers.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "standalone/apiserver/internal/json_path.h"
#include "standalone/apiserver/internal/printers.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

bool ConditionHolds(const Json& pod, std::string_view type) {
  for (const Json& condition : ListAt(pod, "status.conditions")) {
    if (TextAt(condition, "type") == type) return TextAt(condition, "status") == "True";
  }
  return false;
}

// Why a container ended.
std::string EndReason(const Json& ended) {
  std::string reason = TextAt(ended, "reason");
  if (!reason.empty()) return reason;
  const auto signal = NumberAt(ended, "signal");
  return signal != 0 ? fmt::format("Signal:{}", signal)
                     : fmt::format("ExitCode:{}", NumberAt(ended, "exitCode"));
}

struct Restarts {
  std::int64_t count = 0;
  std::string last;  // when the last run before this one ended

  void Add(const Json& status) {
    count += NumberAt(status, "restartCount");
    last = std::max(last, TextAt(status, "lastState.terminated.finishedAt"));
  }
};

// True while init containers hold the pod; `reason` then says how far they are.
bool Initializing(const Json& pod, std::string& reason, Restarts& restarts) {
  const Json& statuses = ListAt(pod, "status.initContainerStatuses");
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    restarts.Add(statuses[i]);
    const Json* ended = ValueAt(statuses[i], "state.terminated");
    if (ended != nullptr && NumberAt(*ended, "exitCode") == 0) continue;
    if (ended != nullptr) {
      reason = "Init:" + EndReason(*ended);
      return true;
    }
    const std::string waits = TextAt(statuses[i], "state.waiting.reason");
    reason = !waits.empty() && waits != "PodInitializing"
                 ? "Init:" + waits
                 : fmt::format("Init:{}/{}", i, ListAt(pod, "spec.initContainers").size());
    return true;
  }
  return false;
}

}  // namespace

std::vector<Json> PodCells(const Json& pod, WallTime now) {
  std::string reason = TextAt(pod, "status.phase");
  const std::string said = TextAt(pod, "status.reason");
  if (!said.empty()) reason = said;
  Restarts restarts;
  std::int64_t ready = 0;
  if (!Initializing(pod, reason, restarts) || ConditionHolds(pod, "Initialized")) {
    restarts = {};
    bool running = false;
    const Json& statuses = ListAt(pod, "status.containerStatuses");
    for (auto at = statuses.rbegin(); at != statuses.rend(); ++at) {
      restarts.Add(*at);
      const std::string waits = TextAt(*at, "state.waiting.reason");
      const Json* ended = ValueAt(*at, "state.terminated");
      if (!waits.empty()) {
        reason = waits;
      } else if (ended != nullptr) {
        reason = EndReason(*ended);
      } else if (FlagAt(*at, "ready") && ValueAt(*at, "state.running") != nullptr) {
        running = true;
        ++ready;
      }
    }
    if (reason == "Completed" && running) {
      reason = ConditionHolds(pod, "Ready") ? "Running" : "NotReady";
    }
  }
  const std::string phase = TextAt(pod, "status.phase");
  if (ValueAt(pod, "metadata.deletionTimestamp") != nullptr) {
    if (said == "NodeLost") {
      reason = "Unknown";
    } else if (phase != "Succeeded" && phase != "Failed") {
      reason = "Terminating";
    }
  }
  std::string restarted = std::to_string(restarts.count);
  if (restarts.count != 0 && !restarts.last.empty()) {
    restarted += fmt::format(" ({} ago)", Since(restarts.last, now));
  }
  const Json& addresses = ListAt(pod, "status.podIPs");
  const std::string address =
      addresses.empty() ? TextAt(pod, "status.podIP") : TextAt(addresses[0], "ip");
  const std::size_t gates = ListAt(pod, "spec.readinessGates").size();
  return {TextAt(pod, "metadata.name"),
          fmt::format("{}/{}", ready, ListAt(pod, "spec.containers").size()),
          reason,
          restarted,
          AgeOf(pod, now),
          OrNone(address),
          OrNone(TextAt(pod, "spec.nodeName")),
          OrNone(TextAt(pod, "status.nominatedNodeName")),
          gates == 0 ? Json("<none>") : Json(fmt::format("0/{}", gates))};
}

}  // namespace paddleop::standalone::apiserver
