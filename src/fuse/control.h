// How other commands talk to a mount process: HTTP over a unix socket that only its owner may use.
//
//   GET  /status      JSON: volume, mode, counters; no secrets
//   GET  /volume      JSON: the metadata URL, with its password: for commands of the same user
//   POST /refresh     data-set mode: load the tree again; JSON: what changed
//   GET  /accesslog   a line for every request of the kernel, until the reader leaves
//   GET  /metrics     as --metrics serves them
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/status.h"
#include "fuse/op_stats.h"

namespace paddleop::fuse {

struct ControlHooks {
  std::function<std::string()> status;                             // JSON
  std::function<Result<std::string>(const Context& ctx)> refresh;  // JSON; empty: not this mode
  std::string meta_url;
};

class ControlServer {
 public:
  // Listens at `socket_path`, replacing a socket that a dead process left. The hooks, the registry
  // and the counters outlive this object.
  static Result<std::unique_ptr<ControlServer>> Start(const std::string& socket_path,
                                                      ControlHooks hooks, OpStats& stats,
                                                      MetricsRegistry& metrics, const Logger& log);
  virtual ~ControlServer() = default;
};

// Serves /metrics and /healthz on "HOST:PORT" or ":PORT".
Result<std::unique_ptr<ControlServer>> StartMetricsServer(const std::string& address,
                                                          OpStats& stats, MetricsRegistry& metrics,
                                                          const Logger& log);

// Where the process that serves the mounted device listens: /run/samplefs for root, otherwise below
// the user's runtime directory.
std::string ControlSocketPath(unsigned device_minor);

// The process behind a mount point, also if it does not answer. kNotFound if nothing of ours is
// mounted there, kUnavailable if it is gone, kNotSupported if it has no number here because it
// lives in another PID namespace.
Result<pid_t> FindMountProcess(const std::string& mount_point);

// Asks the process behind a mount point. kNotFound if nothing of ours is mounted there,
// kUnavailable if its process does not answer.
Result<std::string> CallMount(const Context& ctx, const std::string& mount_point,
                              const std::string& method, const std::string& path);
// The same, piece by piece until the sink or the other side ends it.
Result<void> StreamMount(const Context& ctx, const std::string& mount_point,
                         const std::string& path,
                         const std::function<Result<void>(std::string_view)>& sink);

}  // namespace paddleop::fuse
