#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "volume/cache/cache_store.h"
#include "volume/cache/disk_cache.h"
#include "volume/chunk/block_store.h"
#include "volume/meta/meta_store.h"
#include "volume/object/object_store.h"
#include "volume/object/renewing_store.h"
#include "volume/vfs/vfs.h"

namespace paddleop::volume {

// How this client uses the object store, beside what the volume's setting says.
struct TransferOptions {
  // Megabits per second, 0 for no limit; unset: UploadLimit and DownloadLimit of the setting.
  std::optional<std::int64_t> upload_mbps = {};
  std::optional<std::int64_t> download_mbps = {};
  // One request that takes longer is given up and tried again.
  std::chrono::milliseconds get_timeout{60'000};
  std::chrono::milliseconds put_timeout{60'000};
  int retries = 10;                                 // 0: only the deadline ends them
  std::chrono::milliseconds block_timeout{60'000};  // of one block, retries included
};

struct VolumeOptions {
  bool read_only = false;
  // Registers this client with the volume, which it needs to keep unlinked files open. Commands
  // that open nothing for long do without.
  std::optional<SessionInfo> session;
  std::uint64_t memory_cache_bytes = 96ULL << 20;  // 0: none
  CacheOptions cache = {};                         // on disks; none by default
  // Keeps the cache directories within the limits above, all the time. Not for commands that only
  // look or remove: their limits are not those of the processes that filled the directories.
  bool cache_upkeep = true;
  BlockPeer peer = {};  // asked before the object store
  std::size_t max_downloads = 32;
  std::size_t max_uploads = 20;
  std::uint64_t buffer_bytes = 128ULL << 20;
  bool cache_full_writes = true;  // keep full blocks in the cache after their upload
  TransferOptions transfer = {};
  std::chrono::milliseconds heartbeat{12'000};
  bool background_jobs = true;  // of the metadata: clean up after others
  VfsOptions vfs;
};

// An open volume: its metadata, its object store with the decorators that every client wants, and
// the layers above. The parts live as long as the volume.
class Volume {
 public:
  // Reads the setting at `meta_url` and connects to what it names. kNotFound if there is no volume.
  static Result<std::unique_ptr<Volume>> Open(const Context& ctx, const std::string& meta_url,
                                              const VolumeOptions& options, const Logger& log,
                                              MetricsRegistry& metrics);
  ~Volume();

  const Setting& setting() const { return setting_; }
  MetaStore& meta() { return *meta_; }
  // Keys below the volume's own prefix. Follows the access keys of the setting when they change.
  object::ObjectStore& objects() { return *objects_; }
  BlockStore& blocks() { return *blocks_; }
  // Null if VolumeOptions::cache names no directory.
  DiskCache* disk_cache() { return disk_cache_.get(); }
  Vfs& vfs() { return *vfs_; }

 private:
  Volume() = default;
  Result<void> OpenObjects(const VolumeOptions& options, MetricsRegistry& metrics);
  Result<void> OpenCaches(const Context& ctx, const VolumeOptions& options, const Logger& log,
                          MetricsRegistry& metrics);
  // Of the Vfs, with so much memory for blocks.
  std::function<std::uint64_t()> AheadLimit(std::uint64_t memory);

  Setting setting_;
  std::unique_ptr<object::RenewingStore> objects_;  // asks meta_ for new keys
  std::unique_ptr<DiskCache> disk_cache_;
  std::unique_ptr<CacheStore> cache_;  // reads disk_cache_
  std::unique_ptr<BlockStore> blocks_;
  std::unique_ptr<MetaStore> meta_;  // its threads delete through blocks_
  std::unique_ptr<Vfs> vfs_;
};

// The object store of a volume, as its setting says: below the volume's prefix, with retries,
// checksums, bandwidth limits and metrics.
Result<std::unique_ptr<object::ObjectStore>> OpenVolumeObjects(
    const Setting& setting, MetricsRegistry& metrics, const TransferOptions& transfer = {});

// Makes a volume: checks the setting, tries the object store (put, get, delete of a probe), refuses
// a prefix that holds data already, then writes the metadata. Nothing is left behind when it fails.
// With `force` an existing volume's setting is replaced.
Result<void> FormatVolume(const Context& ctx, const std::string& meta_url, const Setting& setting,
                          bool force, const Logger& log, MetricsRegistry& metrics);

}  // namespace paddleop::volume
