#include "net/internal/socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stop_token>
#include <system_error>

namespace paddleop::net::internal {
namespace {

// poll(2) counts in milliseconds; rounding up keeps it from spinning in the last one.
int PollTimeout(const Context& ctx) {
  if (!ctx.has_deadline()) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(ctx.Remaining()).count());
}

}  // namespace

Result<std::unique_ptr<Socket>> Socket::Adopt(UniqueFd fd, std::string peer) {
  UniqueFd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return ErrnoFail("eventfd for the connection to {}", peer);
  return std::unique_ptr<Socket>(new Socket(std::move(fd), std::move(wake), std::move(peer)));
}

Result<void> Socket::Check(const Context& ctx) const {
  if (ctx.Stopped() || shutdown_.load(std::memory_order_relaxed)) {
    return Fail(Code::kCancelled, "{}: stopped", peer_);
  }
  if (ctx.Expired()) return Fail(Code::kDeadline, "{}: deadline exceeded", peer_);
  return {};
}

Result<void> Socket::Wait(const Context& ctx, short events) {
  const std::stop_callback on_stop(ctx.stop(), [this] { Wake(); });
  std::array<pollfd, 2> fds = {{{fd_.get(), events, 0}, {wake_.get(), POLLIN, 0}}};
  for (;;) {
    const int ready = ::poll(fds.data(), fds.size(), PollTimeout(ctx));
    if (ready < 0 && errno != EINTR) return Failed("poll", errno);
    if (ready <= 0) {
      RETURN_IF_ERROR(Check(ctx));
      continue;
    }
    if (fds[1].revents != 0) {
      // Emptied before the reason is looked up: a stop in between is then either seen or rings
      // again. Without a reason it was meant for an earlier call that ended by itself at the same
      // moment.
      std::uint64_t count = 0;
      [[maybe_unused]] const auto drained = ::read(wake_.get(), &count, sizeof(count));
      if (auto checked = Check(ctx); !checked) {
        Wake();  // it may have been meant for the other one as well, who reads or writes
        return checked;
      }
    }
    if (fds[0].revents != 0) return {};
  }
}

bool Socket::Quiet() const {
  pollfd fd = {fd_.get(), POLLIN, 0};
  return ::poll(&fd, 1, 0) == 0;
}

void Socket::Shutdown() {
  shutdown_.store(true);
  Wake();
}

void Socket::Wake() const {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the wait is already over.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

std::unexpected<Status> Socket::Failed(std::string_view doing, int error) const {
  return Fail(Code::kUnavailable, "{} {}: {}", doing, peer_, std::system_category().message(error));
}

}  // namespace paddleop::net::internal
