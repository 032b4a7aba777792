#include "fuse/internal/refresher.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/thread_pool.h"
#include "fuse/internal/call.h"

namespace paddleop::fuse {
namespace {

// A handler may do nothing but wake the thread.
std::atomic<int> hangup_fd{-1};

void OnHangup(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  if (const int fd = hangup_fd.load(); fd >= 0) {
    [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
  }
  errno = saved;
}

// Tells the kernel what to forget.
class KernelListener final : public volume::ChangeListener {
 public:
  KernelListener(Session& session, volume::Ino root) : session_(session), inos_{.root = root} {}
  void OnEntryChanged(volume::Ino parent, std::string_view name) override {
    session_.InvalidateEntry(volume::Ino{inos_.ToKernel(parent)}, name);
  }
  void OnInodeChanged(volume::Ino ino) override {
    session_.InvalidateInode(volume::Ino{inos_.ToKernel(ino)});
  }

 private:
  Session& session_;
  const InoMap inos_;
};

}  // namespace

Refresher::Refresher(volume::DataSet& data, Session& session, std::chrono::milliseconds interval,
                     const Logger& log)
    : data_(data),
      session_(session),
      interval_(interval),
      log_(log),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this](const std::stop_token& stop) {
        SetThreadName("refresh");
        Run(stop);
      }) {
  hangup_fd.store(wake_.get());
  struct sigaction action = {};
  action.sa_handler = OnHangup;
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
}

Refresher::~Refresher() { Stop(); }

void Refresher::Cancel() {
  hangup_fd.store(-1);
  thread_.request_stop();
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void Refresher::Stop() {
  Cancel();
  if (thread_.joinable()) thread_.join();
}

Result<std::string> Refresher::RefreshNow(const Context& ctx) {
  KernelListener listener(session_, data_.view()->root());
  ASSIGN_OR_RETURN(const volume::RefreshDone done, data_.Refresh(ctx, listener));
  log_.Info(
      ctx, "data set refreshed",
      {{"changed_names", done.entries}, {"changed_inodes", done.inodes}, {"inodes", done.nodes}});
  return fmt::format(R"({{"changed":{},"names":{},"inodes":{},"total":{}}})", done.changed,
                     done.entries, done.inodes, done.nodes);
}

void Refresher::Run(const std::stop_token& stop) {
  const Context ctx = Context::Background().WithStop(stop);
  const int timeout = interval_.count() > 0 ? static_cast<int>(interval_.count()) : -1;
  while (!stop.stop_requested()) {
    pollfd wait{.fd = wake_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wait, 1, timeout);
    if (stop.stop_requested()) return;
    const Context bounded = ctx.WithTimeout(std::chrono::minutes(10));
    if (ready > 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = ::read(wake_.get(), &count, sizeof count);
    } else if (ready == 0) {
      auto stale = data_.IsStale(bounded);
      if (!stale) {
        log_.Warn(ctx, "cannot tell whether the data set has changed",
                  {{"error", stale.error().message()}});
      }
      if (!stale || !*stale) continue;
    } else {
      continue;
    }
    if (auto done = RefreshNow(bounded); !done)
      log_.Warn(ctx, "refresh failed", {{"error", done.error().message()}});
  }
}

}  // namespace paddleop::fuse
