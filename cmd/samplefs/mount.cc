#include "fuse/mount.h"

#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/secret.h"
#include "fuse/mount_table.h"
#include "samplefs/background.h"
#include "samplefs/mount_flags.h"
#include "samplefs/mount_fstab.h"
#include "samplefs/tool.h"
#include "volume/format/object_key.h"

namespace paddleop::cmd {
namespace {

std::string DefaultLog() {
  return ::geteuid() == 0 ? "/var/log/samplefs.log"
                          : GetEnv("HOME", "/tmp") + "/.samplefs/samplefs.log";
}

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

Result<void> SetTransfer(const MountFlags& flags, volume::TransferOptions* transfer) {
  ASSIGN_OR_RETURN(const double get, ParseSeconds("get-timeout", flags.get_timeout));
  ASSIGN_OR_RETURN(const double put, ParseSeconds("put-timeout", flags.put_timeout));
  if (get < 0.1 || put < 0.1) {
    return paddleop::Fail(Code::kInvalid, "--get-timeout and --put-timeout must be at least 100ms");
  }
  transfer->get_timeout = Milliseconds(get);
  transfer->put_timeout = Milliseconds(put);
  if (flags.io_retries < 0 || flags.io_retries > 1000)
    return paddleop::Fail(Code::kInvalid, "--io-retries goes from 0 to 1000");
  transfer->retries = static_cast<int>(flags.io_retries);
  const auto limit = [](const char* name, std::int64_t mbps,
                        std::optional<std::int64_t>* target) -> Result<void> {
    if (mbps < -1 || mbps > 1'000'000) {
      return paddleop::Fail(Code::kInvalid, "--{} is {}; give megabits per second, 0 for no limit",
                            name, mbps);
    }
    if (mbps >= 0) *target = mbps;
    return {};
  };
  RETURN_IF_ERROR(limit("upload-limit", flags.upload_limit, &transfer->upload_mbps));
  return limit("download-limit", flags.download_limit, &transfer->download_mbps);
}

Result<volume::VolumeOptions> MakeVolumeOptions(const MountFlags& flags,
                                                const std::string& mount_point) {
  volume::VolumeOptions options;
  options.read_only = flags.read_only;
  if (!flags.read_only) {
    options.session = volume::SessionInfo{.version = "1.3.1",
                                          .host_name = HostName(),
                                          .mount_point = mount_point,
                                          .process_id = static_cast<std::uint64_t>(::getpid())};
  }
  if (flags.max_uploads < 1 || flags.max_uploads > 1000 || flags.max_downloads < 0 ||
      flags.max_downloads > 1000) {
    return paddleop::Fail(Code::kInvalid, "--max-uploads and --max-downloads go from 1 to 1000");
  }
  options.max_uploads = static_cast<std::size_t>(flags.max_uploads);
  if (flags.max_downloads > 0)
    options.max_downloads = static_cast<std::size_t>(flags.max_downloads);
  ASSIGN_OR_RETURN(options.buffer_bytes, ParseMebibytes("buffer-size", flags.buffer_size));
  if (options.buffer_bytes < (32U << 20))
    return paddleop::Fail(Code::kInvalid, "--buffer-size must be at least 32 MiB");
  ASSIGN_OR_RETURN(options.vfs.max_readahead, ParseMebibytes("max-readahead", flags.max_readahead));
  ASSIGN_OR_RETURN(const double io, ParseSeconds("io-timeout", flags.io_timeout));
  if (io < 1) return paddleop::Fail(Code::kInvalid, "--io-timeout must be at least 1s");
  options.vfs.io_timeout = Milliseconds(io);
  RETURN_IF_ERROR(SetTransfer(flags, &options.transfer));
  options.transfer.block_timeout = Milliseconds(io);
  ASSIGN_OR_RETURN(const double heartbeat, ParseSeconds("heartbeat", flags.heartbeat));
  if (heartbeat < 1 || heartbeat > 600)
    return paddleop::Fail(Code::kInvalid, "--heartbeat goes from 1s to 10m");
  options.heartbeat = Milliseconds(heartbeat);
  options.background_jobs = !flags.no_background_jobs;
  options.cache_full_writes = flags.cache_large_write;
  ASSIGN_OR_RETURN(options.cache, flags.cache.Options(/*use_default=*/true));
  // The kernel's page cache holds what programs have read; a second copy would push it out.
  options.cache.direct_reads = flags.read_only;
  options.memory_cache_bytes = flags.read_only ? 0 : 32ULL << 20;
  if (flags.read_only && options.cache.memory_bytes) {
    // A data set keeps blocks in memory by itself, as buffers.
    options.buffer_bytes += *options.cache.memory_bytes;
    options.cache.memory_bytes.reset();
  }
  return options;
}

Result<fuse::MountOptions> MakeMountOptions(const MountFlags& flags,
                                            const std::string& mount_point) {
  fuse::MountOptions options;
  options.session.mount_point = mount_point;
  options.session.read_only = flags.read_only;
  options.session.allow_other = flags.allow_other || ::geteuid() == 0;
  options.session.options = flags.kernel_options;
  if (flags.threads < 0 || flags.threads > 10'000) {
    return paddleop::Fail(Code::kInvalid,
                          "--threads is {}; give 1 to 10000, or 0 for as many as fit the machine",
                          flags.threads);
  }
  const std::size_t cores = std::max(2U, std::thread::hardware_concurrency());
  // In data-set mode they never wait for anything.
  const std::size_t threads = flags.read_only ? std::min<std::size_t>(cores, 8) : 64;
  options.session.max_threads =
      flags.threads > 0 ? static_cast<std::size_t>(flags.threads) : threads;
  options.session.idle_threads = std::min(options.session.max_threads, cores * 2);
  options.session.readahead_kib = 8192;
  auto& general = options.general;
  ASSIGN_OR_RETURN(general.attr_timeout, ParseSeconds("attr-cache", flags.attr_cache));
  ASSIGN_OR_RETURN(general.entry_timeout, ParseSeconds("entry-cache", flags.entry_cache));
  ASSIGN_OR_RETURN(general.dir_entry_timeout,
                   ParseSeconds("dir-entry-cache", flags.dir_entry_cache));
  ASSIGN_OR_RETURN(general.negative_timeout,
                   ParseSeconds("negative-entry-cache", flags.negative_entry_cache));
  general.xattr = !flags.disable_xattr;
  general.writeback_cache = flags.writeback_cache;
  if (!flags.umask.empty()) {
    ASSIGN_OR_RETURN(general.umask, ParseUmask(flags.umask));
  }
  options.read_only = flags.read_only;
  options.keep_pages = !flags.no_keep_pages;
  options.metrics_address = flags.metrics;
  ASSIGN_OR_RETURN(const double refresh, ParseSeconds("refresh", flags.refresh));
  options.refresh_interval = Milliseconds(refresh);
  ASSIGN_OR_RETURN(const double io, ParseSeconds("io-timeout", flags.io_timeout));
  options.data_set.io_timeout = general.io_timeout = Milliseconds(io);
  options.data_set.io_retries = static_cast<int>(flags.io_retries);
  options.data_set.prefetch = flags.prefetch != 0;
  ASSIGN_OR_RETURN(const volume::CacheOptions cache, flags.cache.Options(/*use_default=*/true));
  options.data_set.recent_bytes =
      std::max(options.data_set.recent_bytes, cache.memory_bytes.value_or(0));
  ASSIGN_OR_RETURN(options.data_set.max_readahead,
                   ParseMebibytes("max-readahead", flags.max_readahead));
  if (flags.max_downloads > 0)
    options.data_set.fetch_threads = static_cast<std::size_t>(flags.max_downloads);
  return options;
}

// In general mode a hangup ends the mount as SIGTERM does, which commits what was written. From
// ourselves it never counts as the second one.
void EndInOrder(int) { ::kill(::getpid(), SIGTERM); }

// Every cached block that stays open takes a descriptor.
void AllowManyFiles() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// In data-set mode a hangup means to refresh, once there is something to refresh.
void HandleHangup(bool read_only) {
  struct sigaction before = {}, action = {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;  // nohup
  action.sa_handler = read_only ? SIG_IGN : EndInOrder;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGHUP, &action, nullptr);
}

void WarnOfNoEffect(Tool& tool, const MountFlags& flags) {
  for (const std::string& ignored : flags.ignored)
    tool.log().Warn(tool.ctx(), "mount option without effect", {{"option", ignored}});
  const std::string others = FlagsOfTheOtherMode(flags);
  if (others.empty()) return;
  tool.log().Warn(
      tool.ctx(),
      flags.read_only ? "without effect in data-set mode" : "only --read-only mounts know these",
      {{"flags", others}});
}

// A cache in the mount itself would wait for its own reads, or cache what it caches.
Result<void> CheckCacheDirectories(const volume::CacheOptions& cache,
                                   const std::string& mount_point) {
  for (const volume::CacheDirectory& directory : cache.directories) {
    std::error_code error;
    const std::string path = std::filesystem::weakly_canonical(directory.path, error).string();
    if (error || !(path + "/").starts_with(mount_point + "/")) continue;
    return paddleop::Fail(Code::kInvalid,
                          "--cache-dir {} lies in the mount point {}; choose a directory elsewhere",
                          directory.path, mount_point);
  }
  return {};
}

// As format does it, or by reading what format has written.
Result<void> TryStore(const Context& ctx, volume::Volume& volume, bool read_only) {
  auto& store = volume.objects();
  if (read_only) {
    ASSIGN_OR_RETURN(const std::string uuid,
                     volume::object::GetString(store, ctx, volume::kUuidKey, 1024));
    if (uuid == volume.setting().uuid) return {};
    return paddleop::Fail(Code::kCorrupt, "another volume lies there ({})", uuid);
  }
  const std::string key = "testing/" + HexEncode(RandomBytes(5));
  const std::string content = RandomBytes(64);
  RETURN_IF_ERROR(volume::object::PutString(store, ctx, key, content));
  ASSIGN_OR_RETURN(const std::string read, volume::object::GetString(store, ctx, key, 1024));
  if (read != content)
    return paddleop::Fail(Code::kCorrupt, "{} gives back other bytes than were put", store.name());
  return store.Delete(ctx, key);
}

Result<void> CheckStorage(Tool& tool, volume::Volume& volume, const MountFlags& flags) {
  if (!flags.check_storage) return {};
  const Context ctx = tool.ctx().WithTimeout(std::chrono::seconds(30));
  auto tried = TryStore(ctx, volume, flags.read_only);
  if (tried) return {};
  return std::unexpected(
      std::move(tried).error().Wrap(fmt::format("--check-storage: {}", volume.objects().name())));
}

// The mount works without it.
void WriteFstab(Tool& tool, const MountFlags& flags) {
  if (!flags.update_fstab) return;
  auto directory = fuse::CanonicalDirectory(flags.mount_point);
  auto updated = directory ? UpdateFstab(tool.volume, *directory)
                           : Result<void>(std::unexpected(directory.error()));
  if (!updated)
    tool.log().Warn(tool.ctx(), "--update-fstab", {{"error", updated.error().message()}});
}

Result<void> Serve(Tool& tool, MountFlags& flags) {
  RETURN_IF_ERROR(fuse::CheckFuse());
  ASSIGN_OR_RETURN(const std::string mount_point, fuse::CanonicalDirectory(flags.mount_point));
  RETURN_IF_ERROR(fuse::CheckMountPoint(mount_point));
  ASSIGN_OR_RETURN(const auto volume_options, MakeVolumeOptions(flags, mount_point));
  RETURN_IF_ERROR(CheckCacheDirectories(volume_options.cache, mount_point));
  ASSIGN_OR_RETURN(auto options, MakeMountOptions(flags, mount_point));
  WarnOfNoEffect(tool, flags);
  if (flags.fake) return {};
  UniqueFd log;
  if (IsBackgroundProcess()) {
    ASSIGN_OR_RETURN(log, OpenLog(flags.log_file.empty() ? DefaultLog() : flags.log_file));
  }
  ASSIGN_OR_RETURN(const double exit, ParseSeconds("exit-timeout", flags.exit_timeout));
  if (exit < 1) return paddleop::Fail(Code::kInvalid, "--exit-timeout must be at least 1s");
  fuse::ExitGuard guard(Milliseconds(exit), tool.log());
  ASSIGN_OR_RETURN(auto volume, tool.OpenVolume(volume_options));
  RETURN_IF_ERROR(CheckStorage(tool, *volume, flags));
  ASSIGN_OR_RETURN(options.meta_url, tool.ResolveVolume());
  options.session.source = "SampleFS:" + volume->setting().name;
  if (!flags.subdir.empty()) {
    auto root =
        volume->meta().Resolve(tool.ctx(), volume::Caller{}, volume::kRootIno, flags.subdir);
    if (!root) return std::unexpected(std::move(root).error().Wrap("--subdir " + flags.subdir));
    if (root->attr.type != volume::FileType::kDirectory) {
      return paddleop::Fail(Code::kNotDirectory, "--subdir {} is not a directory of the volume",
                            flags.subdir);
    }
    options.general.root = options.data_set.root = root->ino;
  }
  return fuse::RunMount(tool.ctx(), *volume, options, tool.metrics(), guard, tool.log(), [&] {
    tool.log().Info(tool.ctx(), "mounted",
                    {{"volume", volume->setting().name},
                     {"path", mount_point},
                     {"metadata", RedactUrl(options.meta_url)}});
    if (!IsBackgroundProcess()) return WriteFstab(tool, flags);
    if (auto ready = SayReady(log); !ready)
      tool.log().Error(tool.ctx(), "background start", {{"error", ready.error().message()}});
  });
}

int RunMountCommand(Tool& tool, MountFlags& flags) {
  if (auto applied = ApplyMountOptions(&flags); !applied) {
    tool.Fail(applied.error());
    return kExitUsage;
  }
  if (!flags.log_level.empty()) tool.SetLogLevel(flags.log_level);
  if (flags.background && !flags.fake && !IsBackgroundProcess()) {
    auto arguments = OwnArguments();
    if (!arguments) return tool.Fail(arguments.error());
    auto started = StartInBackground(tool.ctx(), *arguments);
    if (!started) return tool.Fail(started.error());
    if (*started == 0) WriteFstab(tool, flags);
    return *started;
  }
  // Whoever reads our log, or waits in the foreground, may go before us.
  ::signal(SIGPIPE, SIG_IGN);
  HandleHangup(flags.read_only);
  AllowManyFiles();
  // Blocks come and go in buffers of megabytes: their memory goes back to the system at once, and
  // many threads do not each keep a heap of their own.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  ::mallopt(M_ARENA_MAX, 4);
  if (auto served = Serve(tool, flags); !served) return tool.Fail(served.error());
  return kExitDone;
}

}  // namespace

void AddMount(Command& program, Tool& tool) {
  auto flags = std::make_shared<MountFlags>();
  Command command = program.AddCommand("mount", "mount a volume",
                                       [flags, &tool] { return RunMountCommand(tool, *flags); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArgument("DIR", &flags->mount_point, "an existing directory");
  AddMountFlags(command, flags.get());
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
