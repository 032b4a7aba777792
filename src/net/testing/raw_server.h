#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "base/posix.h"
#include "base/status.h"

namespace paddleop::net::testing {

// One accepted connection, in the hands of a test's script. Every wait ends when the server is
// destroyed.
class RawConnection {
 public:
  explicit RawConnection(UniqueFd fd) : fd_(std::move(fd)) {}

  // The next request with its body (by Content-Length), or "" when the client has closed.
  std::string ReadRequest();
  // Whatever comes next; "" when the client has closed.
  std::string ReadSome();
  // False when the client has gone.
  bool Send(std::string_view bytes);
  // Returns when the client has closed its side.
  void WaitForClose();
  // Ends the connection with a TCP reset instead of a FIN.
  void Reset();
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::string pending_;
};

// A TCP server on a loopback port that does exactly what a test's script says, on a thread per
// connection: for what no well-behaved server would do. The connection closes when the script
// returns.
class RawServer {
 public:
  // `index` counts the connections from 0.
  using Script = std::function<void(RawConnection& connection, int index)>;

  static Result<std::unique_ptr<RawServer>> Start(Script script);
  ~RawServer();

  std::uint16_t port() const { return port_; }
  std::string Url(std::string_view path = "/") const;
  int connections() const { return connections_; }

 private:
  RawServer(UniqueFd listener, std::uint16_t port, Script script);
  void Accept();

  UniqueFd listener_;
  const std::uint16_t port_;
  const Script script_;
  std::atomic<int> connections_ = 0;
  Mutex mutex_;
  std::list<RawConnection> open_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::list<std::jthread> threads_;
  std::jthread acceptor_;
};

// A client's end of a TCP connection to a loopback port, for tests that write their own bytes.
Result<UniqueFd> ConnectTo(std::uint16_t port);
// Everything that comes within `timeout` or until the other side closes.
std::string ReadAll(int fd, std::chrono::milliseconds timeout);
// Reads until `end` has come, the other side closes or `timeout` passes.
std::string ReadUntil(int fd, std::string_view end, std::chrono::milliseconds timeout);

}  // namespace paddleop::net::testing
