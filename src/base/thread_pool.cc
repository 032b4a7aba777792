#include "base/thread_pool.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"

namespace paddleop {

void SetThreadName(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

ThreadPool::ThreadPool(Options options) : options_(std::move(options)) {
  CHECK(options_.threads > 0 && options_.queue_limit > 0, "pool {}", options_.name);
  threads_.reserve(options_.threads);
  try {
    for (std::size_t i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this] {
        SetThreadName(options_.name);
        Run();
      });
    }
  } catch (...) {
    Stop();  // no destructor will tell those that have begun that they end
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    not_empty_.notify_all();
    not_full_.notify_all();
  }
  threads_.clear();
}

Result<void> ThreadPool::Submit(const Context& ctx, Task task) {
  MutexLock lock(mutex_);
  auto has_room = [&]() REQUIRES(mutex_) {
    return stopping_ || queue_.size() < options_.queue_limit;
  };
  const bool ready = ctx.has_deadline()
                         ? not_full_.wait_until(lock, ctx.stop(), ctx.deadline(), has_room)
                         : not_full_.wait(lock, ctx.stop(), has_room);
  if (stopping_) return Fail(Code::kUnavailable, "pool {} is stopped", options_.name);
  if (!ready) {
    RETURN_IF_ERROR(ctx.Check());
    return Fail(Code::kDeadline, "pool {} stayed full", options_.name);
  }
  queue_.push_back(std::move(task));
  not_empty_.notify_one();
  return {};
}

bool ThreadPool::TrySubmit(Task task) {
  MutexLock lock(mutex_);
  if (stopping_ || queue_.size() >= options_.queue_limit) return false;
  queue_.push_back(std::move(task));
  not_empty_.notify_one();
  return true;
}

void ThreadPool::Drain() {
  MutexLock lock(mutex_);
  idle_.wait(lock, [&]() REQUIRES(mutex_) { return queue_.empty() && running_ == 0; });
}

std::size_t ThreadPool::queued() const {
  MutexLock lock(mutex_);
  return queue_.size();
}

void ThreadPool::Run() {
  MutexLock lock(mutex_);
  for (;;) {
    not_empty_.wait(lock, [&]() REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    not_full_.notify_one();
    lock.unlock();
    task();
    task = nullptr;  // what it captured must not outlive the task under our lock
    lock.lock();
    --running_;
    if (queue_.empty() && running_ == 0) idle_.notify_all();
  }
}

}  // namespace paddleop
