// std::mutex with clang's thread-safety annotations: a field that says GUARDED_BY(mutex_) cannot be
// touched without the lock in a clang build. g++ ignores the annotations.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define PADDLEOP_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define PADDLEOP_THREAD_ANNOTATION(x)
#endif

#define CAPABILITY(x) PADDLEOP_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY PADDLEOP_THREAD_ANNOTATION(scoped_lockable)
#define GUARDED_BY(x) PADDLEOP_THREAD_ANNOTATION(guarded_by(x))
#define REQUIRES(...) PADDLEOP_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) PADDLEOP_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) PADDLEOP_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) PADDLEOP_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) PADDLEOP_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace paddleop {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Holds the mutex for its scope; Unlock() and Lock() for the rare early release. Also a
// BasicLockable, so it works with CondVar.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(&mutex) { mutex.lock(); }
  ~MutexLock() RELEASE() {
    if (held_) mutex_->unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ACQUIRE() {
    mutex_->lock();
    held_ = true;
  }
  void unlock() RELEASE() {
    held_ = false;
    mutex_->unlock();
  }

 private:
  Mutex* mutex_;
  bool held_ = true;
};

// Use with a stop token or a deadline; the predicate runs under the lock and says so:
//   cv.wait(lock, ctx.stop(), [&]() REQUIRES(mutex_) { return !queue_.empty(); });
using CondVar = std::condition_variable_any;

}  // namespace paddleop
