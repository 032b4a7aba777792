#include "volume/vfs/volume.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/crypto.h"
#include "volume/cache/memory_cache.h"
#include "volume/cache/tiered_cache.h"
#include "volume/object/open_store.h"
#include "volume/object/prefix_store.h"
#include "volume/vfs/internal/disk_watch.h"

namespace paddleop::volume {
namespace {

std::uint64_t MemoryForBlocks(const VolumeOptions& options) {
  return options.cache.memory_bytes.value_or(options.memory_cache_bytes);
}

// Cached blocks that stay open: opening a file is the one thing a reader has to wait for. Most of
// the descriptors are left to others.
std::size_t MostOpenBlocks() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return DiskCacheOptions{}.max_open_files;
  return std::clamp<std::size_t>(limit.rlim_cur / 8, DiskCacheOptions{}.max_open_files, 4096);
}

}  // namespace

Result<std::unique_ptr<object::ObjectStore>> OpenVolumeObjects(const Setting& setting,
                                                               MetricsRegistry& metrics,
                                                               const TransferOptions& transfer) {
  object::StoreOptions options{
      .limit = {.upload_mbps = transfer.upload_mbps.value_or(setting.upload_limit),
                .download_mbps = transfer.download_mbps.value_or(setting.download_limit)},
      .metrics = &metrics};
  options.retry.backoff.max_attempts = transfer.retries;
  options.retry.get_timeout = transfer.get_timeout;
  options.retry.put_timeout = transfer.put_timeout;
  ASSIGN_OR_RETURN(auto store, object::OpenStore({.storage = setting.storage,
                                                  .bucket = setting.bucket,
                                                  .access_key = setting.access_key,
                                                  .secret_key = setting.secret_key,
                                                  .session_token = setting.session_token,
                                                  .shards = static_cast<int>(setting.shards)},
                                                 options));
  return object::WithPrefix(std::move(store), setting.name + "/");
}

Result<void> Volume::OpenObjects(const VolumeOptions& options, MetricsRegistry& metrics) {
  ASSIGN_OR_RETURN(auto first, OpenVolumeObjects(setting_, metrics, options.transfer));
  objects_ = std::make_unique<object::RenewingStore>(
      std::move(first),
      [this, used = setting_, transfer = options.transfer,
       &metrics](const Context& ctx) mutable -> Result<std::unique_ptr<object::ObjectStore>> {
        ASSIGN_OR_RETURN(const Setting now, meta_->Load(ctx));
        if (now.access_key == used.access_key && now.secret_key == used.secret_key &&
            now.session_token == used.session_token) {
          return nullptr;
        }
        ASSIGN_OR_RETURN(auto store, OpenVolumeObjects(now, metrics, transfer));
        used = now;
        return store;
      });
  return {};
}

Result<void> Volume::OpenCaches(const Context& ctx, const VolumeOptions& options, const Logger& log,
                                MetricsRegistry& metrics) {
  const std::uint64_t memory = MemoryForBlocks(options);
  std::unique_ptr<CacheStore> in_memory = memory > 0 ? MakeMemoryCache(memory) : nullptr;
  if (options.cache.directories.empty()) {
    if (in_memory) cache_ = MakeTieredCache(std::move(in_memory), nullptr, metrics);
    return {};
  }
  DiskCacheOptions disk{.uuid = setting_.uuid,
                        .layout = setting_.layout(),
                        .directories = options.cache.directories,
                        .checksum = options.cache.checksum,
                        .direct_reads = options.cache.direct_reads,
                        .max_open_files = MostOpenBlocks()};
  if (!options.cache_upkeep) disk.recount_interval = std::chrono::seconds(0);
  ASSIGN_OR_RETURN(disk_cache_, DiskCache::Open(ctx, disk, log, metrics));
  cache_ = MakeTieredCache(std::move(in_memory), disk_cache_.get(), metrics);
  return {};
}

std::function<std::uint64_t()> Volume::AheadLimit(std::uint64_t memory) {
  // What was just read is there, too, and so is what others read and write.
  const std::uint64_t in_memory = memory / 2;
  if (!disk_cache_) return [in_memory] { return in_memory; };
  return [in_memory, watch = std::make_shared<DiskWatch>(*disk_cache_)] {
    return watch->Keeps() ? UINT64_MAX : in_memory;
  };
}

Result<std::unique_ptr<Volume>> Volume::Open(const Context& ctx, const std::string& meta_url,
                                             const VolumeOptions& options, const Logger& log,
                                             MetricsRegistry& metrics) {
  std::unique_ptr<Volume> volume(new Volume());
  ASSIGN_OR_RETURN(volume->meta_, OpenMetaStore(ctx, meta_url,
                                                {.read_only = options.read_only,
                                                 .heartbeat = options.heartbeat,
                                                 .background_jobs = options.background_jobs,
                                                 .log = &log}));
  auto setting = volume->meta_->Load(ctx);
  if (!setting)
    return std::unexpected(std::move(setting).error().Wrap("open volume " + RedactUrl(meta_url)));
  volume->setting_ = *std::move(setting);
  RETURN_IF_ERROR(volume->OpenObjects(options, metrics));
  ASSIGN_OR_RETURN(const Compression compression, ParseCompression(volume->setting_.compression));
  RETURN_IF_ERROR(volume->OpenCaches(ctx, options, log, metrics));
  volume->blocks_ = std::make_unique<BlockStore>(
      BlockStoreOptions{.layout = volume->setting_.layout(),
                        .compression = compression,
                        .max_downloads = options.max_downloads,
                        .max_uploads = options.max_uploads,
                        .buffer_bytes = options.buffer_bytes,
                        .get_timeout = options.transfer.block_timeout,
                        .put_timeout = options.transfer.block_timeout,
                        .peer = options.peer,
                        .cache_full_writes = options.cache_full_writes},
      *volume->objects_, volume->cache_.get(), log);
  const bool in_bulk = volume->objects_->traits().delete_batch > 1;
  if (!options.read_only && in_bulk) {
    volume->meta_->SetBulkSliceDeleter(
        [blocks = volume->blocks_.get()](const Context& deleting,
                                         std::span<const SliceKey> slices) {
          return blocks->DeleteSlices(deleting, slices);
        });
  } else if (!options.read_only) {
    volume->meta_->SetSliceDeleter(
        [blocks = volume->blocks_.get()](const Context& deleting, SliceKey slice) {
          return blocks->DeleteSlice(deleting, slice);
        });
  }
  if (options.session) {
    auto session = volume->meta_->OpenSession(ctx, *options.session);
    if (!session)
      return std::unexpected(std::move(session).error().Wrap("register with the volume"));
  }
  VfsOptions vfs = options.vfs;
  if (!vfs.ahead_limit) vfs.ahead_limit = volume->AheadLimit(MemoryForBlocks(options));
  volume->vfs_ = std::make_unique<Vfs>(*volume->meta_, *volume->blocks_, log, std::move(vfs));
  return volume;
}

Volume::~Volume() {
  if (objects_) objects_->Stop();
  vfs_.reset();
  // The deletion thread uses the block store: it ends before its own members do.
  meta_.reset();
}

namespace {

Result<void> ProbeStore(const Context& ctx, object::ObjectStore& store) {
  const std::string key = "testing/" + HexEncode(RandomBytes(5));
  const std::string content = RandomBytes(64);
  RETURN_IF_ERROR(object::PutString(store, ctx, key, content));
  ASSIGN_OR_RETURN(const std::string read, object::GetString(store, ctx, key, 1024));
  if (read != content)
    return Fail(Code::kCorrupt, "{} gives back other bytes than were put", store.name());
  return store.Delete(ctx, key);
}

}  // namespace

Result<void> FormatVolume(const Context& ctx, const std::string& meta_url, const Setting& setting,
                          bool force, const Logger& log, MetricsRegistry& metrics) {
  RETURN_IF_ERROR(setting.ValidateNew());
  RETURN_IF_ERROR(setting.CheckWritable());
  ASSIGN_OR_RETURN(auto meta,
                   OpenMetaStore(ctx, meta_url, {.background_jobs = false, .log = &log}));
  auto existing = meta->Load(ctx);
  if (existing && !force) {
    return Fail(Code::kAlreadyExists,
                "{} holds the volume \"{}\" already; use --force to change its setting",
                RedactUrl(meta_url), existing->name);
  }
  if (!existing && !IsNotFound(existing.error()))
    return std::unexpected(std::move(existing).error());
  ASSIGN_OR_RETURN(auto objects, OpenVolumeObjects(setting, metrics));
  RETURN_IF_ERROR(objects->Create(ctx));
  if (auto probed = ProbeStore(ctx, *objects); !probed) {
    return std::unexpected(
        std::move(probed).error().Wrap(fmt::format(R"(storage "{}" with bucket "{}" does not work)",
                                                   setting.storage, RedactUrl(setting.bucket))));
  }
  if (!existing) {
    ASSIGN_OR_RETURN(const auto found, object::ListEntries(*objects, ctx, {.limit = 1}));
    if (!found.empty()) {
      return Fail(Code::kAlreadyExists,
                  "{} is not empty ({}); choose another name or bucket, or empty it",
                  objects->name(), found[0].key);
    }
  }
  RETURN_IF_ERROR(object::PutString(*objects, ctx, kUuidKey, setting.uuid));
  return meta->Format(ctx, setting, force);
}

}  // namespace paddleop::volume
