#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <stop_token>
#include <thread>

#include "base/mutex.h"

namespace paddleop::fuse {

// Programs that get a signal while they wait for us must not wait for a store that hangs. But a
// signal is no reason to break off what is about to end: runtimes send themselves signals all the
// time. So an interrupted request is cancelled only if it still runs after a grace.
//
// Thread-safe.
class Interrupts {
 public:
  explicit Interrupts(std::chrono::milliseconds grace = std::chrono::milliseconds(1'000));
  ~Interrupts();

  // Stops `source` after the grace, unless it is gone by then.
  void Add(std::weak_ptr<std::stop_source> source);

 private:
  struct Due {
    std::chrono::steady_clock::time_point when;
    std::weak_ptr<std::stop_source> source;
  };

  void Run(const std::stop_token& stop);

  const std::chrono::milliseconds grace_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Due> due_ GUARDED_BY(mutex_);  // in order of time
  std::jthread thread_;
};

}  // namespace paddleop::fuse
