#include "runtime/server/samplefs_engine.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/crypto.h"
#include "base/posix.h"
#include "runtime/server/disks.h"
#include "runtime/server/parts.h"
#include "runtime/server/peer_directory.h"
#include "runtime/server/set_totals.h"
#include "runtime/server/volume_files.h"
#include "volume/format/compression.h"
#include "volume/peer/block_node.h"
#include "volume/peer/local_peer.h"
#include "volume/peer/peer_link.h"
#include "volume/vfs/volume.h"

namespace paddleop::runtime {
namespace {

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "runtime";
}

class SamplefsEngine final : public Engine, public JobRunner {
 public:
  SamplefsEngine(SamplefsEngineOptions options, std::unique_ptr<volume::Volume> volume,
                 const Logger& log, MetricsRegistry& metrics)
      : options_(std::move(options)), log_(log), metrics_(metrics), volume_(std::move(volume)) {
    const auto& setting = volume_->setting();
    for (const auto& directory : options_.cache.directories) {
      directories_.push_back(directory.path);
    }
    state_dir_ = options_.state_dir.empty()
                     ? volume::RuntimeStateDir(directories_.front(), setting.uuid)
                     : options_.state_dir;
  }

  std::string state_dir() const override { return state_dir_; }
  std::string socket_path() const override {
    return volume::RuntimeStateDir(directories_.front(), volume_->setting().uuid) + "/" +
           std::string(volume::kBlockSocketName);
  }

  Result<void> Start(const Context& /*ctx*/, PeerDirectory& peers) override {
    const auto& setting = volume_->setting();
    RETURN_IF_ERROR(
        MakeDirectories(volume::RuntimeStateDir(directories_.front(), setting.uuid), 0700));
    ASSIGN_OR_RETURN(cache_id_, CacheId());
    ASSIGN_OR_RETURN(const auto compression, volume::ParseCompression(setting.compression));
    store_ = std::make_unique<volume::BlockStore>(
        volume::BlockStoreOptions{.layout = setting.layout(), .compression = compression},
        volume_->objects(), nullptr, log_);
    link_ = std::make_unique<volume::HttpPeerLink>(
        volume::HttpPeerLinkOptions{.self = options_.index,
                                    .ca_file = options_.ca_file,
                                    .table = [&peers] { return peers.Table(); },
                                    .token = options_.token});
    node_ = std::make_unique<volume::BlockNode>(setting.layout(), *volume_->disk_cache(), *store_,
                                                *link_, log_, metrics_);
    totals_ = std::make_unique<SetTotals>(volume_->meta(), log_);
    return {};
  }

  JobRunner& parts() override { return *this; }

  std::uint32_t Width(const JobRequest& request, std::uint32_t partitions) const override {
    switch (request.kind) {
      case JobKind::kRmr:
        return 1;
      case JobKind::kWarmup:
        // The layout asked for may be smaller than the set is now: it is about to shrink.
        if (request.warmup.partitions > 0) {
          return std::min(partitions, static_cast<std::uint32_t>(request.warmup.partitions));
        }
        return partitions;
      case JobKind::kSync:
      case JobKind::kClear:
        return partitions;
    }
    return partitions;
  }

  Result<std::string> Run(const Context& ctx, const JobRequest& request,
                          JobReporter& report) override {
    const PartTools tools{.volume = *volume_,
                          .node = *node_,
                          .link = *link_,
                          .journal_dir = state_dir_ + "/imports",
                          .cache_directories = directories_,
                          .source_directories = options_.source_dirs,
                          .log = log_,
                          .metrics = metrics_};
    auto outcome = RunPart(ctx, tools, request, report);
    totals_->LookNow();
    return outcome;
  }

  void Describe(const Context& /*ctx*/, CacheInfo& info) override {
    const auto& setting = volume_->setting();
    info.volume = setting.name;
    info.volume_uuid = setting.uuid;
    info.cache_id = cache_id_;
    const auto totals = totals_->Get();
    info.totals_known = totals.known;
    info.total_size = totals.bytes;
    info.total_files = totals.files;
    const auto statuses = volume_->disk_cache()->Status();
    AddDisks(statuses, info);
    for (const auto& status : statuses) {
      info.cached_size += status.bytes;
      info.pinned_size += status.pinned_bytes;
      info.capacity += status.directory.capacity;
      if (!status.problem.empty() && info.message.empty()) {
        info.message = status.directory.path + ": " + status.problem;
      }
    }
    info.reads = node_->counts();
    const auto traffic = volume_->disk_cache()->Traffic();
    info.reads.local = traffic.hits;
    info.reads.local_bytes = traffic.hit_bytes;
  }

  std::optional<net::ServerResponse> Serve(const Context& ctx, const net::ServerRequest& request,
                                           bool local) override {
    return node_->Serve(ctx, request, local);
  }

  bool Intact() override {
    const auto id = ReadFile(CacheIdFile(), 4096);
    if (id ? *id != cache_id_ : IsNotFound(id.error())) return false;
    return ::access(state_dir_.c_str(), F_OK) == 0 || errno != ENOENT;
  }

  void JobEnded() override { totals_->LookNow(); }

  Result<void> Purge(const Context& ctx) override {
    RETURN_IF_ERROR(volume_->disk_cache()->ClearAll(ctx));
    for (const std::string& directory : directories_) {
      for (const std::string& path :
           {directory + "/" + volume_->setting().uuid,
            volume::RuntimeStateDir(directory, volume_->setting().uuid)}) {
        std::error_code error;
        std::filesystem::remove_all(path, error);
        if (error) return std::unexpected(ErrnoStatus(error.value(), "remove " + path));
      }
    }
    return {};
  }

 private:
  static Result<std::string> RunPart(const Context& ctx, const PartTools& tools,
                                     const JobRequest& request, JobReporter& report) {
    switch (request.kind) {
      case JobKind::kSync:
        return RunSyncPart(ctx, tools, request, report);
      case JobKind::kWarmup:
        return RunWarmupPart(ctx, tools, request, report);
      case JobKind::kClear:
        return RunClearPart(ctx, tools, request, report);
      case JobKind::kRmr:
        return RunRmrPart(ctx, tools, request, report);
    }
    return Fail(Code::kInternal, "no such kind of job");
  }

  // Lies with the blocks, so that it goes when they go.
  std::string CacheIdFile() const {
    return directories_.front() + "/" + volume_->setting().uuid + "/.samplefs.id";
  }
  Result<std::string> CacheId() const {
    const std::string file = CacheIdFile();
    if (auto id = ReadFile(file, 4096)) return id;
    std::string id = RandomUuid();
    RETURN_IF_ERROR(WriteFileAtomic(file, id, 0600));
    return id;
  }

  const SamplefsEngineOptions options_;
  const Logger& log_;
  MetricsRegistry& metrics_;
  std::vector<std::string> directories_;
  std::string state_dir_;
  std::string cache_id_;
  std::unique_ptr<volume::Volume> volume_;
  std::unique_ptr<volume::BlockStore> store_;
  std::unique_ptr<volume::HttpPeerLink> link_;
  std::unique_ptr<volume::BlockNode> node_;
  std::unique_ptr<SetTotals> totals_;
};

bool SameKeys(const volume::Setting& setting, const VolumeFiles& files) {
  return setting.access_key == files.access_key && setting.secret_key == files.secret_key &&
         setting.session_token == files.session_token;
}

// Keys of the store may be exchanged while the volume lives; the Secret is what counts. Clients
// that have it open take them up when the store refuses the old ones.
Result<void> UpdateKeys(const Context& ctx, volume::Volume& volume, const VolumeFiles& files) {
  volume::Setting setting = volume.setting();
  setting.access_key = files.access_key;
  setting.secret_key = files.secret_key;
  setting.session_token = files.session_token;
  return volume.meta().UpdateSetting(ctx, setting);
}

}  // namespace

Result<std::shared_ptr<Engine>> OpenSamplefsEngine(const Context& ctx,
                                                   SamplefsEngineOptions options, const Logger& log,
                                                   MetricsRegistry& metrics) {
  RETURN_IF_ERROR(options.cache.Validate());
  if (options.cache.directories.empty()) {
    return Fail(Code::kInvalid, "no cache directory is given");
  }
  ASSIGN_OR_RETURN(const VolumeFiles files, VolumeFiles::Read(options.volume_dir));
  const Context bounded = ctx.WithTimeout(std::chrono::seconds(60));
  volume::VolumeOptions volume_options{
      .session = volume::SessionInfo{.version = "1.3.1",
                                     .host_name = HostName(),
                                     .mount_point = "samplefs runtime",
                                     .process_id = static_cast<std::uint64_t>(::getpid())},
      .memory_cache_bytes = 0,
      .cache = options.cache};
  const auto open = [&] {
    return volume::Volume::Open(bounded, files.meta_url, volume_options, log, metrics);
  };
  auto opened = open();
  if (!opened && IsNotFound(opened.error())) {
    if (options.index != 0) {
      return Fail(Code::kUnavailable, "partition 0 has not made the volume \"{}\" yet", files.name);
    }
    auto formatted =
        volume::FormatVolume(bounded, files.meta_url, files.NewSetting(), false, log, metrics);
    if (!formatted) {
      return std::unexpected(std::move(formatted).error().Wrap("make the volume " + files.name));
    }
    log.Info(ctx, "volume made", {{"volume", files.name}});
    opened = open();
  }
  if (!opened) return std::unexpected(std::move(opened).error());
  if ((*opened)->setting().name != files.name) {
    return Fail(Code::kInvalid, R"(the metadata belongs to volume "{}", the Secret names "{}")",
                (*opened)->setting().name, files.name);
  }
  if (!SameKeys((*opened)->setting(), files)) {
    if (options.index != 0)
      return Fail(Code::kUnavailable, "partition 0 has not taken over the keys of the Secret yet");
    RETURN_IF_ERROR(UpdateKeys(bounded, **opened, files));
    log.Info(ctx, "keys of the object store taken over from the Secret");
    opened->reset();
    opened = open();
    if (!opened) return std::unexpected(std::move(opened).error());
  }
  return std::make_shared<SamplefsEngine>(std::move(options), *std::move(opened), log, metrics);
}

}  // namespace paddleop::runtime
