// Threads that cannot be started, once some more were: what is begun then is begun in part.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <climits>

namespace paddleop::testing {

// As long as it lives, the process can start `after` more threads, and then `count` times none. One
// at a time. Where no thread at all is to be had, NoMoreThreads is simpler.
class RefusedThreads {
 public:
  explicit RefusedThreads(int after, int count = INT_MAX) {
    refusals_ = count;
    left_ = after;
  }
  ~RefusedThreads() { refusals_ = 0; }
  RefusedThreads(const RefusedThreads&) = delete;
  RefusedThreads& operator=(const RefusedThreads&) = delete;

  static bool RefusesOne() {
    return refusals_.load() > 0 && left_.fetch_sub(1) <= 0 && refusals_.fetch_sub(1) > 0;
  }

 private:
  static inline std::atomic<int> left_ = 0, refusals_ = 0;
};

}  // namespace paddleop::testing

// In the place of the library's, for a program that includes this.
extern "C" __attribute__((used)) inline int pthread_create(pthread_t* thread,
                                                           const pthread_attr_t* attributes,
                                                           void* (*run)(void*),
                                                           void* argument) noexcept {
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (paddleop::testing::RefusedThreads::RefusesOne()) return EAGAIN;
  return create(thread, attributes, run, argument);
}
