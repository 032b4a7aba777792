#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <thread>

#include "base/posix.h"

namespace paddleop::testing {

// Passes TCP connections on to a port of this machine and cuts some: after the request has gone to
// the server and before its answer comes back, so that the client cannot know whether it was
// executed.
class ChoppingProxy {
 public:
  explicit ChoppingProxy(std::uint16_t target);
  ~ChoppingProxy();

  std::uint16_t port() const { return port_; }
  // From now on one answer in `n` is cut off; 0: none.
  void CutOneIn(std::uint32_t n) { one_in_ = n; }
  std::uint64_t cuts() const { return cuts_; }

 private:
  void Accept(const std::stop_token& stop);
  void Pass(const std::stop_token& stop, int accepted);

  const std::uint16_t target_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::atomic<std::uint32_t> one_in_ = 0;
  std::atomic<std::uint64_t> answers_ = 0;
  std::atomic<std::uint64_t> cuts_ = 0;
  std::list<std::jthread> connections_;  // of the accepting thread
  std::jthread acceptor_;
};

}  // namespace paddleop::testing
