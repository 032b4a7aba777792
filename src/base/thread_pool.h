#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"

namespace paddleop {

// Named threads that run tasks from one bounded queue. One pool per purpose.
//
// Thread-safe. The destructor (or Stop) refuses new tasks, runs what is queued, and joins; it must
// not be called from one of the pool's own tasks.
class ThreadPool {
 public:
  using Task = std::move_only_function<void()>;

  struct Options {
    std::string name = "pool";  // shown by ps and gdb, cut to 15 bytes by the kernel
    std::size_t threads = 4;
    std::size_t queue_limit = 1024;
  };

  explicit ThreadPool(Options options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Queues the task, waiting for room while the queue is full. kCancelled or kDeadline if the
  // caller's time ends first, kUnavailable after Stop().
  Result<void> Submit(const Context& ctx, Task task);
  // Queues the task only if there is room now.
  bool TrySubmit(Task task);
  // Waits until nothing is queued or running.
  void Drain();
  void Stop();

  std::size_t queued() const;

 private:
  void Run();

  const Options options_;
  mutable Mutex mutex_;
  CondVar not_empty_;
  CondVar not_full_;
  CondVar idle_;
  std::deque<Task> queue_ GUARDED_BY(mutex_);
  std::size_t running_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

// Gives the calling thread a name that ps, gdb and perf show.
void SetThreadName(const std::string& name);

}  // namespace paddleop
