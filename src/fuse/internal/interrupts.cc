#include "fuse/internal/interrupts.h"

#include "base/thread_pool.h"

namespace paddleop::fuse {

Interrupts::Interrupts(std::chrono::milliseconds grace)
    : grace_(grace), thread_([this](const std::stop_token& stop) {
        SetThreadName("fuse-interrupt");
        Run(stop);
      }) {}

Interrupts::~Interrupts() = default;

void Interrupts::Add(std::weak_ptr<std::stop_source> source) {
  MutexLock lock(mutex_);
  // Requests that have ended meanwhile leave expired entries; the kernel bounds the others.
  while (!due_.empty() && due_.front().source.expired()) due_.pop_front();
  due_.push_back({std::chrono::steady_clock::now() + grace_, std::move(source)});
  changed_.notify_all();
}

void Interrupts::Run(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (due_.empty()) {
      changed_.wait(lock, stop, [&]() REQUIRES(mutex_) { return !due_.empty(); });
      continue;
    }
    const auto when = due_.front().when;
    if (std::chrono::steady_clock::now() < when) {
      changed_.wait_until(lock, stop, when, [] { return false; });
      continue;
    }
    const auto source = due_.front().source.lock();
    due_.pop_front();
    lock.unlock();
    if (source) source->request_stop();
    lock.lock();
  }
}

}  // namespace paddleop::fuse
