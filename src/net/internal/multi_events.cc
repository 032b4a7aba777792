#include "net/internal/multi_events.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>

#include "base/check.h"

namespace paddleop::net::internal {
namespace {

using std::chrono::steady_clock;

// What the kernel hands back with an event: the socket, and what libcurl waits for on it.
std::uint64_t Label(curl_socket_t fd, int what) {
  return static_cast<std::uint64_t>(what) << 32 | static_cast<std::uint32_t>(fd);
}
curl_socket_t SocketOf(std::uint64_t label) {
  return static_cast<curl_socket_t>(label & std::numeric_limits<std::uint32_t>::max());
}

// An error shows itself to whoever reads or writes, with its own number.
int HappenedOf(const epoll_event& event) {
  const auto wanted = static_cast<int>(event.data.u64 >> 32);
  if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) return wanted;
  return ((event.events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
         ((event.events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0);
}

int WaitMilliseconds(steady_clock::time_point until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

static_assert(CURL_POLL_IN == CURL_CSELECT_IN && CURL_POLL_OUT == CURL_CSELECT_OUT,
              "what is waited for and what happened are the same bits");

Result<std::unique_ptr<MultiEvents>> MultiEvents::Attach(CURLM* multi) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoFail("epoll for HTTP requests");
  UniqueFd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return ErrnoFail("eventfd for HTTP requests");
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = Label(wake.get(), CURL_POLL_IN)}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
    return ErrnoFail("epoll for HTTP requests");
  return std::unique_ptr<MultiEvents>(new MultiEvents(multi, std::move(epoll), std::move(wake)));
}

MultiEvents::MultiEvents(CURLM* multi, UniqueFd epoll, UniqueFd wake)
    : multi_(multi), epoll_(std::move(epoll)), wake_(std::move(wake)) {
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &OnSocketC);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &OnTimerC);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
}

void MultiEvents::Wake() const {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the wait is already over.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

void MultiEvents::Turn(TimePoint until) {
  std::array<epoll_event, 64> events;
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 WaitMilliseconds(std::min(until, timer_)));
  CHECK(ready >= 0 || errno == EINTR, "epoll_wait: {}", std::system_category().message(errno));
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const curl_socket_t fd = SocketOf(event.data.u64);
    if (fd != wake_.get()) {
      // A socket that an event before this one closed is no longer known to libcurl.
      Act(fd, HappenedOf(event));
      continue;
    }
    std::uint64_t count = 0;
    [[maybe_unused]] const auto drained = ::read(wake_.get(), &count, sizeof(count));
  }
  if (timer_ <= steady_clock::now()) {
    timer_ = TimePoint::max();
    Act(CURL_SOCKET_TIMEOUT, 0);
  }
}

void MultiEvents::Act(curl_socket_t fd, int what) const {
  int running = 0;
  const auto rc = curl_multi_socket_action(multi_, fd, what, &running);
  CHECK(rc == CURLM_OK, "libcurl: {}", curl_multi_strerror(rc));
}

int MultiEvents::OnSocketC(CURL*, curl_socket_t fd, int what, void* self, void* known) {
  static_cast<MultiEvents*>(self)->Watch(fd, what, known != nullptr);
  return 0;
}

int MultiEvents::OnTimerC(CURLM*, long milliseconds, void* self) {
  static_cast<MultiEvents*>(self)->timer_ =
      milliseconds < 0 ? TimePoint::max()
                       : steady_clock::now() + std::chrono::milliseconds(milliseconds);
  return 0;
}

void MultiEvents::Watch(curl_socket_t fd, int what, bool known) {
  if (what == CURL_POLL_REMOVE) {
    // Fails if the socket is closed already, which removes it as well.
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    return;
  }
  epoll_event event = {.events = ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0u) |
                                 ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0u),
                       .data = {.u64 = Label(fd, what)}};
  const auto set = [&](int how) { return ::epoll_ctl(epoll_.get(), how, fd, &event) == 0; };
  const bool done = known ? set(EPOLL_CTL_MOD) || (errno == ENOENT && set(EPOLL_CTL_ADD))
                          : set(EPOLL_CTL_ADD) || (errno == EEXIST && set(EPOLL_CTL_MOD));
  CHECK(done, "epoll_ctl: {}", std::system_category().message(errno));
  if (!known) curl_multi_assign(multi_, fd, this);
}

}  // namespace paddleop::net::internal
