// A stand-in for a Redis server that says what a test tells it to, byte by byte: for answers and
// silences that a real server gives too rarely. What a real one can show is tested against a real
// one (tests/integration/redis_test.cc).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/context.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "redis/options.h"

namespace paddleop::redis::testing {

// Long enough for a slow machine.
inline Context Soon() { return Context::Background().WithTimeout(std::chrono::seconds(20)); }

// The server's end of one connection.
class FakeClient {
 public:
  explicit FakeClient(int fd) : fd_(fd) {}

  // The next command that arrives; nullopt when the client has gone.
  std::optional<std::vector<std::string>> Read();
  // As Read(), and answers what is sent on login (AUTH, SELECT, CLIENT) with OK meanwhile.
  std::optional<std::vector<std::string>> ReadAfterLogin();
  void Send(std::string_view bytes);
  // Returns when the client has gone.
  void Stall();
  // Makes the end of the connection a reset.
  void ResetOnClose();
  int fd() const { return fd_; }

 private:
  bool Fill();
  std::optional<std::string> Line();

  int fd_;
  std::string buffer_;
};

class FakeServer {
 public:
  // Called on a thread of its own for each connection, with its number from 0 on; the connection
  // closes when it returns.
  using Serve = std::function<void(FakeClient& client, int number)>;

  explicit FakeServer(Serve serve);
  ~FakeServer();

  // How to reach it; without a client name, so that nothing is sent on login.
  ConnectionOptions options() const;
  int connections() const;
  // Refuses connections from now on.
  void StopListening();

 private:
  void Accept();

  Serve serve_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  mutable Mutex mutex_;
  std::vector<int> open_ GUARDED_BY(mutex_);
  int count_ GUARDED_BY(mutex_) = 0;
  std::list<std::jthread> clients_;  // touched by the accepting thread, then by the destructor
  std::jthread acceptor_;
};

}  // namespace paddleop::redis::testing
