#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "net/http_server.h"

namespace paddleop::net::internal {

// The bytes between whoever writes a streamed response and the session that sends them; for
// upgraded connections also the bytes that came in. Both sides hold it, either may go first.
//
// Thread-safe.
class StreamCore {
 public:
  // `wake` tells the session that there is something to do. It is called under the core's lock and
  // never after Disconnect(), so it must not block nor call back.
  StreamCore(std::size_t limit, std::function<void()> wake);

  // The writer's side.
  Result<void> Write(std::string_view bytes, bool wait);
  Result<std::size_t> Read(const Context& ctx, std::span<char> out);
  void End();
  bool Closed() const;
  void OnClose(std::function<void()> callback);

  // The session's side.
  // What is queued; "" if there is nothing now.
  std::string Take();
  // These bytes are with the kernel: there is room for others.
  void Sent(std::size_t count);
  // The writer has ended and everything was taken.
  bool Drained() const;
  void PutInput(std::string_view bytes);
  bool HasInputRoom() const;
  // The client has gone, or the server stops: writers are told, and end here. What is queued may
  // still be taken. `final` after which the session is not woken any more.
  void Disconnect(bool final);

 private:
  // Once until the session looks.
  void Wake() REQUIRES(mutex_);
  std::size_t InputSize() const REQUIRES(mutex_) { return input_.size() - input_used_; }

  const std::size_t limit_;
  mutable Mutex mutex_;
  CondVar room_;
  CondVar input_came_;
  std::function<void()> wake_ GUARDED_BY(mutex_);
  std::string queued_ GUARDED_BY(mutex_);
  std::size_t taken_ GUARDED_BY(mutex_) = 0;  // with the session, not yet sent
  std::size_t input_used_ GUARDED_BY(mutex_) = 0;
  std::string input_ GUARDED_BY(mutex_);
  bool wake_pending_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  bool disconnected_ GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> on_close_ GUARDED_BY(mutex_);
};

// What the handler's side holds; the last one to go ends the stream.
std::shared_ptr<UpgradedConnection> MakeStream(std::shared_ptr<StreamCore> core);

}  // namespace paddleop::net::internal
