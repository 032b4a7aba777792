// What an engine (SQLite, Redis) supplies: transactions, plain reads without a transaction, bulk
// scans, counters, sessions. No rule of the file system is here.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.h"
#include "base/status.h"
#include "volume/format/types.h"
#include "volume/meta/internal/txn.h"
#include "volume/meta/meta_types.h"

namespace paddleop::volume {

struct Usage {
  std::int64_t space = 0;
  std::int64_t inodes = 0;
};

// Background jobs that one client at a time does, and the counter that serves as lease.
enum class Lease { kSessions, kFiles, kSlices, kTrash };

// Receives the parts of a tree in any order.
class TreeSink {
 public:
  virtual ~TreeSink() = default;
  virtual Result<void> Node(Ino ino, const Attr& attr) = 0;
  virtual Result<void> Entry(Ino parent, std::string_view name, const Edge& edge) = 0;
  // The directory was given before and has changed: these are its attributes now, and its names
  // will be given again, those from before count no more.
  virtual Result<void> Again(Ino directory, const Attr& attr) = 0;
  // What only a tree with slices has: data, and where symbolic links lead.
  virtual Result<void> Chunk(Ino ino, std::uint32_t index, std::span<const Slice> slices) = 0;
  virtual Result<void> Link(Ino ino, std::string_view target) = 0;
};

struct DelayedSlices {
  std::string key;  // names the record for DeleteDelayedSlices
  std::int64_t deleted = 0;
  std::vector<SliceKey> slices;
};

// Thread-safe.
class MetaEngine {
 public:
  using Body = std::function<Result<void>(MetaTxn& txn)>;

  virtual ~MetaEngine() = default;

  // Runs `body` and commits, again on conflict until the deadline. `body`'s own error rolls
  // everything back and is returned as it is. kUnavailable from the commit itself means the outcome
  // is unknown.
  virtual Result<TxnOutcome> WithTxn(const Context& ctx, const Body& body) = 0;
  // The reads of `set` without a transaction, in one round trip, not protected.
  virtual Result<void> ReadOnce(const Context& ctx, const ReadSet& set) = 0;

  // -- Setting --
  virtual Result<std::optional<std::string>> LoadSetting(const Context& ctx) = 0;
  // Stores the setting; on a new volume also schema, counters and the nodes given. A node that
  // exists is left alone.
  virtual Result<void> StoreSetting(const Context& ctx, std::string_view json, bool new_volume,
                                    std::span<const std::pair<Ino, Attr>> nodes) = 0;
  // Called once before the first write to a loaded volume: brings an older schema up to date.
  virtual Result<void> PrepareForWriting(const Context& ctx) = 0;

  // -- Reads of single things, one round trip each --
  // Entry and attributes in one go. The Attr is absent if the entry points nowhere.
  struct Found {
    Edge edge;
    std::optional<Attr> attr;
  };
  virtual Result<std::optional<Found>> FindEntry(const Context& ctx, Ino parent,
                                                 std::string_view name) = 0;
  virtual Result<DirPage> ReadDir(const Context& ctx, Ino ino, std::string_view cursor,
                                  std::size_t limit, bool with_attrs) = 0;
  virtual Result<std::optional<std::string>> ReadSymlink(const Context& ctx, Ino ino) = 0;
  virtual Result<std::vector<std::string>> ListXattr(const Context& ctx, Ino ino) = 0;

  // -- Counters --
  // The first of `count` ids that are now ours; inode ids start at 2, slice ids at 1.
  virtual Result<std::uint64_t> AllocateInodes(const Context& ctx, std::uint64_t count) = 0;
  virtual Result<std::uint64_t> AllocateSlices(const Context& ctx, std::uint64_t count) = 0;
  virtual Result<std::uint64_t> NextSession(const Context& ctx) = 0;
  virtual Result<std::uint64_t> NextTrash(const Context& ctx) = 0;
  virtual Result<Usage> GetUsage(const Context& ctx) = 0;
  // Sets the lease to `now` unless it was taken after `now` - 0.9 * `interval`; false then.
  // Seconds.
  virtual Result<bool> TryLease(const Context& ctx, Lease lease, std::int64_t now,
                                std::int64_t interval) = 0;

  // -- Sessions --
  // Writes the expiry; the info too if it is missing.
  virtual Result<void> PutSession(const Context& ctx, std::uint64_t sid, std::int64_t expires,
                                  std::string_view info_json) = 0;
  virtual Result<std::vector<SessionRecord>> ListSessions(const Context& ctx) = 0;
  virtual Result<std::vector<Ino>> ListSustained(const Context& ctx, std::uint64_t sid) = 0;
  // Removes locks and the session itself; sustained inodes must be gone before.
  virtual Result<void> DeleteSession(const Context& ctx, std::uint64_t sid) = 0;

  // -- Deletion --
  // Files queued at or before `before`.
  virtual Result<std::vector<DeletedFile>> ListDeletedFiles(const Context& ctx, std::int64_t before,
                                                            std::size_t limit) = 0;
  // Slices without references whose objects may still exist.
  virtual Result<std::vector<SliceKey>> ListGarbage(const Context& ctx, std::size_t limit) = 0;
  // The objects of these slices are gone. Leaves alone what has references (again).
  virtual Result<void> ForgetSlices(const Context& ctx, std::span<const SliceKey> slices) = 0;
  // What compaction replaced at or before `before`.
  virtual Result<std::vector<DelayedSlices>> ListDelayedSlices(const Context& ctx,
                                                               std::int64_t before,
                                                               std::size_t limit) = 0;
  // Drops the record and one reference of each of its slices; returns those without any left.
  virtual Result<std::vector<SliceKey>> ReleaseDelayedSlices(const Context& ctx,
                                                             const DelayedSlices& delayed) = 0;

  // -- Statistics and quotas --
  virtual Result<std::optional<DirUsage>> GetDirUsage(const Context& ctx, Ino ino) = 0;
  // Counts the direct children and stores the result.
  virtual Result<DirUsage> SyncDirUsage(const Context& ctx, Ino ino) = 0;
  virtual Result<std::vector<std::pair<Ino, DirQuota>>> ListDirQuotas(const Context& ctx) = 0;
  virtual Result<void> PutDirQuota(const Context& ctx, Ino ino, const DirQuota& quota) = 0;
  virtual Result<void> DeleteDirQuota(const Context& ctx, Ino ino) = 0;

  // -- In bulk --
  // Files (or names) that one transaction should hold at most.
  virtual std::size_t BatchSize() const = 0;
  // Whether ReadSet::ChunkIndexes costs nothing for chunks that are not there.
  virtual bool FindsChunks() const = 0;
  // All below and with `root`: each directory's entries, each inode's attributes, each chunk's
  // records. Nodes that no entry names, and entries of the trash, may be given too; the sink's user
  // ignores them.
  virtual Result<void> ScanTree(const Context& ctx, Ino root, bool with_slices, TreeSink& sink) = 0;
  virtual Result<void> ScanChunks(
      const Context& ctx,
      const std::function<Result<void>(Ino, std::uint32_t, std::vector<Slice>)>& fn) = 0;
  // True counts: references as a number of records.
  virtual Result<void> ScanSliceRefs(
      const Context& ctx, const std::function<Result<void>(SliceKey, std::int64_t)>& fn) = 0;
};

}  // namespace paddleop::volume
