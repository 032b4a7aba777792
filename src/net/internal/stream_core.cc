#include "net/internal/stream_core.h"

#include <algorithm>
#include <utility>

namespace paddleop::net::internal {
namespace {

constexpr std::size_t kMaxInput = 256 << 10;  // unread bytes of an upgraded connection

class CoreStream final : public UpgradedConnection {
 public:
  explicit CoreStream(std::shared_ptr<StreamCore> core) : core_(std::move(core)) {}
  ~CoreStream() override { core_->End(); }
  CoreStream(const CoreStream&) = delete;
  CoreStream& operator=(const CoreStream&) = delete;

  Result<void> Write(std::string_view bytes) override { return core_->Write(bytes, true); }
  Result<void> TryWrite(std::string_view bytes) override { return core_->Write(bytes, false); }
  Result<std::size_t> Read(const Context& ctx, std::span<char> out) override {
    return core_->Read(ctx, out);
  }
  void Close() override { core_->End(); }
  bool Closed() const override { return core_->Closed(); }
  void OnClose(std::function<void()> callback) override { core_->OnClose(std::move(callback)); }

 private:
  const std::shared_ptr<StreamCore> core_;
};

}  // namespace

StreamCore::StreamCore(std::size_t limit, std::function<void()> wake)
    : limit_(std::max<std::size_t>(limit, 1)), wake_(std::move(wake)) {}

Result<void> StreamCore::Write(std::string_view bytes, bool wait) {
  MutexLock lock(mutex_);
  if (!wait && !ended_ && !disconnected_ && queued_.size() + taken_ + bytes.size() > limit_ &&
      queued_.size() + taken_ > 0) {
    return Fail(Code::kUnavailable, "the client reads too slowly: {} bytes are unsent",
                queued_.size() + taken_);
  }
  do {
    if (wait) {
      room_.wait(lock, [&]() REQUIRES(mutex_) {
        return ended_ || disconnected_ || queued_.size() + taken_ < limit_;
      });
    }
    if (ended_) return Fail(Code::kInvalid, "the stream was closed before this write");
    if (disconnected_) return Fail(Code::kCancelled, "the client has gone or the server stops");
    const auto room = wait ? limit_ - queued_.size() - taken_ : bytes.size();
    queued_.append(bytes.substr(0, room));
    bytes.remove_prefix(std::min(room, bytes.size()));
    Wake();
  } while (!bytes.empty());
  return {};
}

Result<std::size_t> StreamCore::Read(const Context& ctx, std::span<char> out) {
  MutexLock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + ctx.Remaining();
  input_came_.wait_until(lock, ctx.stop(), deadline, [&]() REQUIRES(mutex_) {
    return disconnected_ || ended_ || InputSize() > 0;
  });
  if (InputSize() == 0) {
    if (disconnected_ || ended_) return 0;
    RETURN_IF_ERROR(ctx.Check());
    return Fail(Code::kDeadline, "nothing came from the client in time");
  }
  const bool was_full = InputSize() >= kMaxInput;
  const auto count = input_.copy(out.data(), out.size(), input_used_);
  input_used_ += count;
  if (input_used_ == input_.size()) {
    input_.clear();
    input_used_ = 0;
  }
  if (was_full && InputSize() < kMaxInput && wake_) wake_();
  return count;
}

void StreamCore::End() {
  // Destroyed without the lock: what they captured may be the last to hold something that ends
  // here.
  std::vector<std::function<void()>> callbacks;
  const MutexLock lock(mutex_);
  if (std::exchange(ended_, true)) return;
  room_.notify_all();
  input_came_.notify_all();
  callbacks.swap(on_close_);
  Wake();
}

void StreamCore::Wake() {
  if (wake_pending_ || !wake_) return;
  wake_pending_ = true;
  wake_();
}

bool StreamCore::Closed() const {
  const MutexLock lock(mutex_);
  return ended_ || disconnected_;
}

void StreamCore::OnClose(std::function<void()> callback) {
  {
    const MutexLock lock(mutex_);
    if (ended_) return;
    if (!disconnected_) {
      on_close_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

std::string StreamCore::Take() {
  const MutexLock lock(mutex_);
  wake_pending_ = false;
  taken_ += queued_.size();
  return std::exchange(queued_, {});
}

void StreamCore::Sent(std::size_t count) {
  const MutexLock lock(mutex_);
  taken_ -= count;
  room_.notify_all();
}

bool StreamCore::Drained() const {
  const MutexLock lock(mutex_);
  return (ended_ || disconnected_) && queued_.empty();
}

void StreamCore::PutInput(std::string_view bytes) {
  const MutexLock lock(mutex_);
  input_.erase(0, std::exchange(input_used_, 0));
  input_.append(bytes);
  input_came_.notify_all();
}

bool StreamCore::HasInputRoom() const {
  const MutexLock lock(mutex_);
  return InputSize() < kMaxInput;
}

void StreamCore::Disconnect(bool final) {
  std::vector<std::function<void()>> callbacks;
  {
    const MutexLock lock(mutex_);
    if (!ended_) disconnected_ = true;
    room_.notify_all();
    input_came_.notify_all();
    if (final) {
      wake_ = nullptr;
      disconnected_ = true;
      queued_.clear();
    }
    callbacks.swap(on_close_);
  }
  for (const auto& callback : callbacks) callback();
}

std::shared_ptr<UpgradedConnection> MakeStream(std::shared_ptr<StreamCore> core) {
  return std::make_shared<CoreStream>(std::move(core));
}

}  // namespace paddleop::net::internal
