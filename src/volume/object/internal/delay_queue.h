#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"

namespace paddleop::volume::object::internal {

// Runs tasks later, on one thread of its own that starts with the first task: what an operation
// without a waiting thread does instead of sleeping.
//
// Thread-safe. Every task runs exactly once, with true when its time came and false when the caller
// stopped or the queue did; then it should only report. Tasks must not block. Each task belongs to
// an operation in flight, so whoever limits those limits the queue.
class DelayQueue {
 public:
  using Task = std::function<void(bool due)>;

  explicit DelayQueue(std::string name) : name_(std::move(name)) {}
  ~DelayQueue();
  DelayQueue(const DelayQueue&) = delete;
  DelayQueue& operator=(const DelayQueue&) = delete;

  // After Stop(), or where no thread can be started, the task runs at once, on the calling thread,
  // with false.
  void Run(const Context& ctx, std::chrono::steady_clock::duration delay, Task task);
  // Runs what is left with false and joins. Idempotent.
  void Stop();

 private:
  struct Entry;

  // Starts it if there is none yet. False where no thread can be started.
  bool HasThread() REQUIRES(mutex_);
  void Loop();

  const std::string name_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::shared_ptr<Entry>> entries_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // started under mutex_, joined by Stop()
};

}  // namespace paddleop::volume::object::internal
