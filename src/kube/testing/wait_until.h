#pragma once

#include <chrono>
#include <thread>

namespace paddleop::kube::testing {

// Waits for a condition of other threads; false if it did not come true in time.
template <class Condition>
bool WaitUntil(const Condition& condition,
               std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace paddleop::kube::testing
