#pragma once

#include <string>
#include <string_view>

#include "base/context.h"

namespace paddleop::standalone::node {

// The streams of `kubectl exec`, numbered as in the WebSocket protocol of Kubernetes.
enum class ExecStream : char { kStdin = 0, kStdout = 1, kStderr = 2, kError = 3, kResize = 4 };

// Who asked for a command to be run, whatever protocol it speaks. Send is thread-safe, Receive is
// for one thread.
class ExecClient {
 public:
  struct Input {
    ExecStream stream = ExecStream::kStdin;
    std::string bytes;
    bool ended = false;  // nothing more comes on this stream
  };

  virtual ~ExecClient() = default;
  virtual Result<void> Send(ExecStream stream, std::string_view bytes) = 0;
  // kCancelled when the client has gone.
  virtual Result<Input> Receive(const Context& ctx) = 0;
  // Nothing more will be sent.
  virtual void Close() = 0;
};

}  // namespace paddleop::standalone::node
