#include "fuse/mount.h"

#include <thread>

#include "base/thread_pool.h"
#include "fuse/internal/exit_guard.h"
#include "fuse/internal/fuse_api.h"

namespace paddleop::fuse {
namespace {

// From the request to stop to the end of the process.
constexpr std::chrono::seconds kExitLimit{60};

// Waits for the caller's stop and then ends the session.
class Stopper {
 public:
  Stopper(const Context& ctx, std::function<void()> stop)
      : thread_([ctx, stop = std::move(stop)](const std::stop_token& done) {
          SetThreadName("mount-stop");
          std::mutex mutex;
          std::condition_variable_any woken;
          bool stopping = false;
          const std::stop_callback on_stop(ctx.stop(), [&] {
            const std::lock_guard lock(mutex);
            stopping = true;
            woken.notify_all();
          });
          std::unique_lock lock(mutex);
          if (woken.wait(lock, done, [&] { return stopping; })) {
            lock.unlock();
            stop();
          }
        }) {}

 private:
  std::jthread thread_;
};

Result<void> RunGeneral(const Context& ctx, volume::Volume& volume, const MountOptions& options,
                        OpStats& stats, const Logger& log, std::function<void()> ready) {
  ExitGuard guard(log);
  GeneralFs fs(volume.vfs(), stats, log, options.general, std::move(ready));
  ASSIGN_OR_RETURN(auto session,
                   Session::Mount(GeneralFs::Operations(), fs.userdata(), options.session, log));
  Result<void> served;
  {
    const Stopper stopper(ctx, [&] {
      guard.Arm(kExitLimit);
      fs.Cancel();
      session->Stop();
    });
    served = session->Run();
  }
  guard.Arm(kExitLimit);
  fs.Cancel();
  auto flushed = volume.vfs().FlushAll(Context::Background().WithTimeout(kExitLimit / 2));
  session.reset();
  if (!flushed) return std::unexpected(std::move(flushed).error().Wrap("written data was lost"));
  return served;
}

}  // namespace

Result<void> RunMount(const Context& ctx, volume::Volume& volume, const MountOptions& options,
                      MetricsRegistry& metrics, const Logger& log, std::function<void()> ready) {
  OpStats stats(metrics);
  return RunGeneral(ctx, volume, options, stats, log, std::move(ready));
}

}  // namespace paddleop::fuse
