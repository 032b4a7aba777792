#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"
#include "base/thread_pool.h"

namespace paddleop::volume {

// A pool whose tasks may wait for a disk that hangs. When each of its threads has worked on its
// task for too long, others take their place, a bounded number of times; then nothing more is begun
// until one of them comes back.
//
// Thread-safe.
class DiskThreads {
 public:
  struct Options {
    std::string name;
    std::size_t threads = 8;
    std::size_t queue_limit = 1U << 16;
    std::chrono::milliseconds patience{5'000};
    std::size_t most_crews = 3;
  };

  explicit DiskThreads(Options options) : options_(std::move(options)) {}
  ~DiskThreads() { Stop(); }
  DiskThreads(const DiskThreads&) = delete;
  DiskThreads& operator=(const DiskThreads&) = delete;

  // False: it was not begun, for lack of room or of threads that work.
  bool TrySubmit(ThreadPool::Task task);
  // The same, after waiting for room.
  bool Submit(const Context& ctx, ThreadPool::Task task);
  // Runs what is queued and waits for it.
  void Stop();

 private:
  using Steady = std::chrono::steady_clock;
  struct Crew {
    explicit Crew(const Options& options)
        : pool({.name = options.name,
                .threads = options.threads,
                .queue_limit = options.queue_limit}) {}
    std::list<Steady::time_point> running;  // under mutex_; what was begun last is last
    ThreadPool pool;
  };

  // Null if all hang.
  Crew* Working();
  ThreadPool::Task Noted(Crew& crew, ThreadPool::Task task);

  const Options options_;
  Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Crew>> crews_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume
