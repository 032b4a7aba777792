#pragma once

#include <stop_token>
#include <thread>

namespace paddleop::cmd {

// Turns SIGTERM and SIGINT into a stop request. Made before any other thread, so that all of them
// leave the signals to this one.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::jthread thread_;
};

}  // namespace paddleop::cmd
