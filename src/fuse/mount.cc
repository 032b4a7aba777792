#include "fuse/mount.h"

#include <optional>
#include <thread>

#include "base/thread_pool.h"
#include "fuse/control.h"
#include "fuse/data_set_fs.h"
#include "fuse/internal/fuse_api.h"
#include "fuse/internal/kernel_mount.h"
#include "fuse/internal/last_sync.h"
#include "fuse/internal/mount_status.h"
#include "fuse/internal/name_feeder.h"
#include "fuse/internal/page_keeper.h"
#include "fuse/internal/refresher.h"

namespace paddleop::fuse {
namespace {

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

// The servers beside the mount. A mount without control still works, so that is only a warning.
struct Servers {
  std::unique_ptr<ControlServer> control;
  std::unique_ptr<ControlServer> metrics;
};

Result<Servers> StartServers(const Context& ctx, const MountOptions& options,
                             const Session& session, ControlHooks hooks, OpStats& stats,
                             MetricsRegistry& metrics, const Logger& log) {
  Servers servers;
  hooks.meta_url = options.meta_url;
  if (session.device_minor()) {
    auto control = ControlServer::Start(ControlSocketPath(*session.device_minor()),
                                        std::move(hooks), stats, metrics, log);
    if (control) {
      servers.control = *std::move(control);
    } else {
      log.Warn(ctx, "the mount cannot be controlled", {{"error", control.error().message()}});
    }
  }
  if (!options.metrics_address.empty()) {
    ASSIGN_OR_RETURN(servers.metrics,
                     StartMetricsServer(options.metrics_address, stats, metrics, log));
  }
  return servers;
}

Result<void> RunGeneral(const Context& ctx, volume::Volume& volume, const MountOptions& options,
                        OpStats& stats, MetricsRegistry& metrics, ExitGuard& guard,
                        const Logger& log, std::function<void()> ready) {
  GeneralOptions general = options.general;
  general.max_read = LibraryMaxRead(options.session);
  general.threads = options.session.max_threads;
  GeneralFs fs(volume.vfs(), stats, log, general, std::move(ready));
  std::optional<LastSync> last_sync;  // outlives the session
  ASSIGN_OR_RETURN(auto session,
                   Session::Mount(GeneralFs::Operations(), fs.userdata(), options.session, log));
  if (session->device_minor())
    last_sync.emplace(options.session.mount_point, *session->device_minor(), fs.mark(), log);
  fs.OnStaleAttributes([&session](volume::Ino ino) { session->InvalidateAttributes(ino); });
  const MountStatus status(options, volume, nullptr, nullptr, stats);
  ASSIGN_OR_RETURN(const Servers servers,
                   StartServers(ctx, options, *session,
                                {.status = [&status] { return status.Json(); }, .refresh = {}},
                                stats, metrics, log));
  Result<void> served;
  {
    const Stopper stopper(ctx, [&] {
      guard.Arm();
      // Whose files nobody has open for writing has nothing in the kernel.
      if (last_sync && volume.vfs().OpenForWriting()) last_sync->Run(guard.limit() / 4);
      fs.Cancel();
      session->Stop();
    });
    served = session->Run();
  }
  guard.Arm();
  fs.Cancel();
  fs.Drain();
  auto flushed = volume.vfs().FlushAll(Context::Background().WithTimeout(guard.limit() / 2));
  session.reset();
  if (!flushed) return std::unexpected(std::move(flushed).error().Wrap("written data was lost"));
  return served;
}

Result<void> RunDataSet(const Context& ctx, volume::Volume& volume, const MountOptions& options,
                        OpStats& stats, MetricsRegistry& metrics, ExitGuard& guard,
                        const Logger& log, std::function<void()> ready) {
  ASSIGN_OR_RETURN(auto data,
                   volume::DataSet::Open(ctx, volume.meta(), volume.blocks(), volume.disk_cache(),
                                         metrics, options.data_set));
  DataSetFsOptions data_set_fs = options.data_set_fs;
  data_set_fs.max_read = LibraryMaxRead(options.session);
  DataSetFs fs(*data, stats, data_set_fs, std::move(ready));
  ASSIGN_OR_RETURN(auto session,
                   Session::Mount(DataSetFs::Operations(), fs.userdata(), options.session, log));
  Refresher refresher(*data, *session, options.refresh_interval, log);
  std::optional<OwnMount> own;
  std::unique_ptr<NameFeeder> feeder;
  std::unique_ptr<PageKeeper> keeper;
  if (session->device_minor()) {
    own.emplace(options.session.mount_point, *session->device_minor());
    feeder = std::make_unique<NameFeeder>(*data, *own, metrics, log);
    fs.SetOnLookup([&feeder](const volume::DataSet::View& tree, volume::Tree::NodeIndex directory) {
      feeder->Asked(tree, directory);
    });
  }
  if (own && options.keep_pages) {
    keeper = std::make_unique<PageKeeper>(*data, *own, metrics, log);
    fs.SetOnRead([&keeper](volume::Ino file, std::uint64_t offset, std::uint64_t size) {
      keeper->Asked(file, offset, size);
    });
  }
  const MountStatus status(options, volume, data.get(), keeper.get(), stats);
  ASSIGN_OR_RETURN(
      Servers servers,
      StartServers(ctx, options, *session,
                   {.status = [&status] { return status.Json(); },
                    .refresh = [&refresher](const Context& asked) -> Result<std::string> {
                      return refresher.RefreshNow(asked);
                    }},
                   stats, metrics, log));
  const auto stop_asking = [&] {
    refresher.Cancel();  // somebody who asked for a refresh may wait for another one
    servers = {};
    refresher.Stop();
    if (feeder) feeder->Stop();
    if (keeper) keeper->Stop();
  };
  Result<void> served;
  {
    const Stopper stopper(ctx, [&] {
      guard.Arm();
      session->Detach();
      // Who tells the kernel to forget a page waits until the read of that page is answered, and
      // cannot be killed meanwhile. So readers get their answers, if only errors, and the session
      // goes on until nobody refreshes.
      data->Stop();
      stop_asking();
      session->Stop();
    });
    served = session->Run();
  }
  guard.Arm();
  // Answers still under way, and what the kernel is told to forget, go out through the session: it
  // ends last.
  stop_asking();
  data->Stop();
  session.reset();
  return served;
}

}  // namespace

Result<void> RunMount(const Context& ctx, volume::Volume& volume, const MountOptions& options,
                      MetricsRegistry& metrics, ExitGuard& guard, const Logger& log,
                      std::function<void()> ready) {
  OpStats stats(metrics);
  return options.read_only
             ? RunDataSet(ctx, volume, options, stats, metrics, guard, log, std::move(ready))
             : RunGeneral(ctx, volume, options, stats, metrics, guard, log, std::move(ready));
}

}  // namespace paddleop::fuse
