#include "standalone/node/process/exit_watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/thread_pool.h"

namespace paddleop::standalone::node {

Result<std::unique_ptr<ExitWatcher>> ExitWatcher::Start() {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoFail("make an eventfd");
  std::unique_ptr<ExitWatcher> watcher(new ExitWatcher(std::move(wake)));
  watcher->thread_ =
      std::jthread([w = watcher.get()](const std::stop_token& stop) { w->Run(stop); });
  return watcher;
}

ExitWatcher::~ExitWatcher() {
  thread_.request_stop();
  Wake();
}

void ExitWatcher::Wake() {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void ExitWatcher::Watch(pid_t pid, Callback ended) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd.valid()) {
    ::waitpid(pid, nullptr, WNOHANG);
    ended();
    return;
  }
  {
    const MutexLock lock(mutex_);
    added_.push_back({pid, std::move(fd), std::move(ended)});
  }
  Wake();
}

void ExitWatcher::Run(const std::stop_token& stop) {
  SetThreadName("exit-watcher");
  std::vector<Watched> watched;
  while (!stop.stop_requested()) {
    {
      const MutexLock lock(mutex_);
      for (Watched& each : added_) watched.push_back(std::move(each));
      added_.clear();
    }
    std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}};
    for (const Watched& each : watched) fds.push_back({each.fd.get(), POLLIN, 0});
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    std::uint64_t ignored = 0;
    (void)!::read(wake_.get(), &ignored, sizeof ignored);
    std::vector<Watched> left;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (fds[i + 1].revents == 0) {
        left.push_back(std::move(watched[i]));
        continue;
      }
      ::waitpid(watched[i].pid, nullptr, WNOHANG);
      watched[i].ended();
    }
    watched = std::move(left);
  }
}

}  // namespace paddleop::standalone::node
