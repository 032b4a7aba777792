#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/posix.h"
#include "base/status.h"

namespace paddleop::net::internal {

// Waits for the sockets and timers of a multi handle and lets libcurl work on those that have
// something to say. A turn costs what happened in it, however many requests are under way; with
// curl_multi_poll every turn asks for every socket.
//
// Wake() is for any thread, the rest for the one that drives the handle. Must outlive the handle,
// which reports the end of its sockets until it is cleaned up.
class MultiEvents {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static Result<std::unique_ptr<MultiEvents>> Attach(CURLM* multi);
  MultiEvents(const MultiEvents&) = delete;
  MultiEvents& operator=(const MultiEvents&) = delete;

  // Ends the wait of the Turn() under way, or of the next one.
  void Wake() const;
  // Waits for something to do, at most until `until`, and does it.
  void Turn(TimePoint until);

 private:
  MultiEvents(CURLM* multi, UniqueFd epoll, UniqueFd wake);

  static int OnSocketC(CURL* easy, curl_socket_t fd, int what, void* self, void* known);
  static int OnTimerC(CURLM* multi, long milliseconds, void* self);
  void Watch(curl_socket_t fd, int what, bool known);
  void Act(curl_socket_t fd, int what) const;

  CURLM* const multi_;
  const UniqueFd epoll_;
  const UniqueFd wake_;
  TimePoint timer_ = TimePoint::max();  // when libcurl wants to be called without an event
};

}  // namespace paddleop::net::internal
