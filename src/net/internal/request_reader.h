#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_server.h"

namespace paddleop::net::internal {

// Turns the bytes of one connection into requests, however they are cut into pieces. Knows no
// socket, so that every input can be tried without one. Not thread-safe.
class RequestReader {
 public:
  RequestReader(std::size_t max_header_bytes, std::size_t max_body_bytes);
  ~RequestReader();

  enum class Step {
    kNeedMore,        // Append() the next bytes
    kExpectContinue,  // once per request: the client waits for "100 Continue" before its body
    kRequest,         // Take() it
    kRefused,         // refusal() says why; the connection is of no further use
  };

  void Append(std::string_view bytes);
  Step Advance();
  // Where the request at hand is: nothing of it yet, inside its header, inside its body.
  enum class Phase { kIdle, kHeader, kBody };
  Phase phase() const;

  // The request, and whether the client allows the connection to be kept. Ready for the next one.
  struct Message {
    ServerRequest request;
    bool keep_alive = false;
    bool http_1_0 = false;
  };
  Message Take();

  // The answer to send before closing.
  struct Refusal {
    int status = 400;
    std::string why;
  };
  const Refusal& refusal() const { return refusal_; }

  // Bytes received but not yet used.
  std::size_t buffered() const { return buffer_.size() - used_; }
  // Those bytes, for a connection that stops speaking HTTP.
  std::string TakeRest();

 private:
  class Parser;

  Step Refuse(int status, std::string why);
  Step OnHeader();
  void Compact();

  const std::size_t max_header_bytes_;
  const std::size_t max_body_bytes_;
  std::unique_ptr<Parser> parser_;
  std::string buffer_;
  std::size_t used_ = 0;
  Message message_;
  bool header_done_ = false;
  std::size_t header_bytes_ = 0;  // of the request at hand, used so far
  Refusal refusal_;
};

}  // namespace paddleop::net::internal
