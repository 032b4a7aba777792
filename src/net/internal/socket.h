#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/posix.h"
#include "base/status.h"

namespace paddleop::net::internal {

// A non-blocking socket together with the means to stop waiting for it: what plain and TLS streams
// have in common.
//
// Not thread-safe, except Shutdown().
class Socket {
 public:
  // `fd` must be non-blocking; `peer` is its name in messages.
  static Result<std::unique_ptr<Socket>> Adopt(UniqueFd fd, std::string peer);

  int fd() const { return fd_.get(); }
  const std::string& peer() const { return peer_; }

  // Returns when one of poll(2)'s `events` or an error is there to be had by the next call on the
  // socket. kDeadline and kCancelled as the context says, kCancelled also on Shutdown(). Call
  // Check() first: a request to stop that came before is not seen here.
  Result<void> Wait(const Context& ctx, short events);
  // The same verdict without waiting and without a system call.
  Result<void> Check(const Context& ctx) const;
  // True if nothing is to be read and the peer has not closed.
  bool Quiet() const;
  // Ends calls that wait, and all later ones, with kCancelled.
  void Shutdown();

  // kUnavailable for the errno of a failed call on the socket: whatever it is, this connection is
  // over and another one may work.
  std::unexpected<Status> Failed(std::string_view doing, int error) const;

 private:
  Socket(UniqueFd fd, UniqueFd wake, std::string peer)
      : fd_(std::move(fd)), wake_(std::move(wake)), peer_(std::move(peer)) {}

  void Wake() const;

  UniqueFd fd_;
  UniqueFd wake_;  // an eventfd: readable once somebody wants Wait() to look up
  std::string peer_;
  std::atomic<bool> shutdown_{false};
};

}  // namespace paddleop::net::internal
