#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "base/context.h"
#include "base/mutex.h"
#include "base/status.h"

namespace paddleop::redis::internal {

// Locks by key for the threads of this process: two that would only void each other's transactions
// take turns instead. Keys share a fixed number of locks, so unrelated keys may wait for each other
// but nothing grows.
//
// Thread-safe; not recursive. Unlike a mutex it is held across round trips, which is its purpose.
class KeyLocks {
  struct Stripe;

 public:
  class Hold {
   public:
    Hold(Hold&& other) noexcept : stripe_(std::exchange(other.stripe_, nullptr)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold();

   private:
    friend class KeyLocks;
    explicit Hold(Stripe* stripe) : stripe_(stripe) {}
    Stripe* stripe_;
  };

  // Waits until the key is free: kDeadline or kCancelled if that takes too long.
  Result<Hold> Lock(const Context& ctx, std::string_view key);

 private:
  struct Stripe {
    Mutex mutex;
    CondVar released;
    bool held GUARDED_BY(mutex) = false;
  };
  std::array<Stripe, 1024> stripes_;
};

}  // namespace paddleop::redis::internal
