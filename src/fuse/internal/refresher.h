#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/context.h"
#include "base/log.h"
#include "base/posix.h"
#include "fuse/session.h"
#include "volume/vfs/data_set.h"

namespace paddleop::fuse {

// Brings a mounted data set up to date: when told, on SIGHUP, and, if an interval is given, when
// the volume says that it has changed. The kernel forgets what is wrong now.
//
// Thread-safe. One per process, because of the signal.
class Refresher {
 public:
  // Both outlive this object. An interval of zero: only when told.
  Refresher(volume::DataSet& data, Session& session, std::chrono::milliseconds interval,
            const Logger& log);
  ~Refresher();

  // JSON: what has changed.
  Result<std::string> RefreshNow(const Context& ctx);
  // Gives up what is under way by itself, and begins nothing more.
  void Cancel();
  void Stop();

 private:
  void Run(const std::stop_token& stop);

  volume::DataSet& data_;
  Session& session_;
  const std::chrono::milliseconds interval_;
  const Logger& log_;
  UniqueFd wake_;
  std::jthread thread_;
};

}  // namespace paddleop::fuse
