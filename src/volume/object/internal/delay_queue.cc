#include "volume/object/internal/delay_queue.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "base/thread_pool.h"

namespace paddleop::volume::object::internal {

struct DelayQueue::Entry {
  std::chrono::steady_clock::time_point due;
  Task task;
  bool cancelled = false;  // guarded by the queue's mutex
  // Wakes the queue when the caller stops. Destroyed outside the mutex, since its destructor waits
  // for a callback that is just taking it.
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
};

DelayQueue::~DelayQueue() { Stop(); }

void DelayQueue::Run(const Context& ctx, std::chrono::steady_clock::duration delay, Task task) {
  auto entry = std::make_shared<Entry>();
  entry->due = std::chrono::steady_clock::now() + delay;
  entry->task = std::move(task);
  // The callback holds the entry, which holds the callback: the loop breaks the circle. It must be
  // in place before the loop can see the entry.
  if (ctx.stop().stop_possible()) {
    entry->on_stop.emplace(ctx.stop(), [this, weak = std::weak_ptr(entry)] {
      auto self = weak.lock();
      if (!self) return;
      MutexLock lock(mutex_);
      self->cancelled = true;
      changed_.notify_all();
    });
  }
  {
    MutexLock lock(mutex_);
    if (!stopping_ && HasThread()) {
      entries_.push_back(std::move(entry));
      changed_.notify_all();
      return;
    }
  }
  entry->on_stop.reset();
  entry->task(false);
}

bool DelayQueue::HasThread() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::jthread([this] { Loop(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void DelayQueue::Loop() {
  SetThreadName(name_);
  MutexLock lock(mutex_);
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    const bool stopping = stopping_;
    const auto ready = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
      return stopping || entry->cancelled || entry->due <= now;
    });
    if (ready != entries_.end()) {
      std::shared_ptr<Entry> entry = std::move(*ready);
      entries_.erase(ready);
      const bool due = !stopping_ && !entry->cancelled;
      lock.unlock();
      entry->on_stop.reset();
      entry->task(due);
      entry.reset();
      lock.lock();
      continue;
    }
    if (stopping_) return;
    if (entries_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto next =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const auto& a, const auto& b) { return a->due < b->due; });
    changed_.wait_until(lock, (*next)->due);
  }
}

void DelayQueue::Stop() {
  std::jthread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

}  // namespace paddleop::volume::object::internal
