#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/posix.h"

namespace paddleop::standalone::node {

// Tells when processes end, children of ours or not, and buries those that are. One thread.
// Thread-safe.
class ExitWatcher {
 public:
  using Callback = std::function<void()>;

  static Result<std::unique_ptr<ExitWatcher>> Start();
  ~ExitWatcher();

  // Calls `ended` once, on the watcher's thread, when the process has ended; at once if it has
  // already.
  void Watch(pid_t pid, Callback ended);

 private:
  struct Watched {
    pid_t pid = -1;
    UniqueFd fd;
    Callback ended;
  };

  explicit ExitWatcher(UniqueFd wake) : wake_(std::move(wake)) {}
  void Run(const std::stop_token& stop);
  void Wake();

  UniqueFd wake_;
  Mutex mutex_;
  std::vector<Watched> added_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace paddleop::standalone::node
