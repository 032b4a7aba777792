#include "fuse/internal/last_sync.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <utility>

#include "base/thread_pool.h"
#include "fuse/internal/own_mount.h"

namespace paddleop::fuse {

LastSync::LastSync(std::string mount_point, unsigned minor, ArrivalMark& mark, const Logger& log)
    : mount_point_(std::move(mount_point)),
      minor_(minor),
      mark_(mark),
      log_(log),
      thread_([this](const std::stop_token& stop) {
        SetThreadName("last-sync");
        Work(stop);
      }) {}

void LastSync::Run(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  deadline_ = deadline;
  changed_.notify_all();
  if (changed_.wait_until(lock, deadline, [&]() REQUIRES(mutex_) { return done_; })) return;
  log_.Warn(Context::Background(),
            "what programs have written and the kernel still holds did not come in time",
            {{"path", mount_point_}});
}

void LastSync::Work(const std::stop_token& stop) {
  Context ctx = Context::Background().WithStop(stop);
  {
    MutexLock lock(mutex_);
    const auto asked = [&]() REQUIRES(mutex_) { return deadline_.time_since_epoch().count() != 0; };
    if (!changed_.wait(lock, stop, asked)) return;
    ctx = ctx.WithDeadline(deadline_);
  }
  if (auto synced = Sync(ctx); !synced) {
    log_.Warn(ctx, "what programs have written and the kernel still holds may be lost",
              {{"path", mount_point_}, {"error", synced.error().message()}});
  }
  MutexLock lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

Result<void> LastSync::Sync(const Context& ctx) {
  mark_.ExpectFrom(::gettid());
  ASSIGN_OR_RETURN(UniqueFd root, OpenRoot());
  if (::syncfs(root.get()) != 0) return ErrnoFail("sync {}", mount_point_);
  // The kernel waits for no answers here, nor even until its requests have been taken.
  root.Reset();
  mark_.Wait(ctx);  // if not, Run says so
  return {};
}

Result<UniqueFd> LastSync::OpenRoot() const {
  auto copy = OwnMount(mount_point_, minor_).Copy();
  if (copy || copy.error().code() != Code::kPermission) return copy;
  // Only root may copy mounts. Who comes after us may have mounted something else there.
  const UniqueFd place(::open(mount_point_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat info = {};
  if (!place.valid() || ::fstat(place.get(), &info) != 0)
    return ErrnoFail("look at {}", mount_point_);
  if (::major(info.st_dev) != 0 || ::minor(info.st_dev) != minor_)
    return Fail(Code::kNotFound, "{} is another mount now", mount_point_);
  UniqueFd root(::openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return ErrnoFail("open {}", mount_point_);
  return root;
}

}  // namespace paddleop::fuse
