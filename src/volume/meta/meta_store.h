#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/context.h"
#include "base/log.h"
#include "volume/format/setting.h"
#include "volume/format/types.h"
#include "volume/meta/meta_types.h"
#include "volume/meta/tree.h"

namespace paddleop::volume {

// A MetaStore holds the tree of a volume: inodes, names, and the slices of each chunk. The stored
// layout is JuiceFS's, so other clients may have the same volume open at the same time. Nothing
// read from the volume is cached here, except the setting and directory quotas (refreshed by each
// heartbeat, and by Load): what one client commits the next call of another sees.
//
// Thread-safe. Every method is one transaction unless it says otherwise: it happens entirely or not
// at all. A call that fails with kUnavailable may have happened: the connection was lost while it
// committed. kDeadline and kCancelled are only returned if nothing was changed, or by methods of
// several transactions.
//
// Failures common to all: kUnavailable (the engine is away), kDeadline, kCancelled, kCorrupt (the
// volume is damaged), kNotSupported (writing a volume that this client may only read), kPermission
// (mode bits, sticky directories, immutable files, read-only store). Methods name those a caller
// can act on.
class MetaStore {
 public:
  virtual ~MetaStore() = default;

  // -- The volume --

  // Makes the database a volume. kAlreadyExists if it is one, unless `force`: then the setting is
  // rewritten and the tree stays.
  virtual Result<void> Format(const Context& ctx, const Setting& setting, bool force) = 0;
  // Reads the setting and checks that we may serve it; needed once before anything below. kNotFound
  // if the database holds no volume.
  virtual Result<Setting> Load(const Context& ctx) = 0;
  // Replaces the setting of a loaded volume; kConflict if it is another volume's (UUID).
  virtual Result<void> UpdateSetting(const Context& ctx, const Setting& setting) = 0;
  virtual Result<StatFs> GetStatFs(const Context& ctx) = 0;

  // -- Names and attributes --

  // Finds `name` in `parent`. "." and ".." work, as does ".trash" in the root. kNotFound,
  // kNotDirectory. If there is no such name, `directory` (may be null) tells of the directory, and
  // of none if that is gone, too.
  virtual Result<Entry> Lookup(const Context& ctx, const Caller& caller, Ino parent,
                               std::string_view name, std::optional<Attr>* directory = nullptr) = 0;
  // Several names at once, in two round trips, without the special ones; absent names give nullopt.
  // An entry that points nowhere has nlink 0. Permissions are not checked.
  virtual Result<std::vector<std::optional<Entry>>> LookupMany(
      const Context& ctx, std::span<const ChildName> children) = 0;
  // Walks a path from `base`; a leading or doubled '/' does not matter. Symbolic links are not
  // followed.
  virtual Result<Entry> Resolve(const Context& ctx, const Caller& caller, Ino base,
                                std::string_view path) = 0;
  virtual Result<Attr> GetAttr(const Context& ctx, Ino ino) = 0;
  // Several at once, in one round trip; absent inodes give nullopt.
  virtual Result<std::vector<std::optional<Attr>>> GetAttrs(const Context& ctx,
                                                            std::span<const Ino> inodes) = 0;
  // Returns the attributes after the change. A change of length is a transaction of its own, before
  // the others.
  virtual Result<Attr> SetAttr(const Context& ctx, const Caller& caller, Ino ino,
                               const AttrChange& change) = 0;
  virtual Result<Entry> Mkdir(const Context& ctx, const Caller& caller, Ino parent,
                              std::string_view name, std::uint16_t mode) = 0;
  // Makes a file, pipe, socket or device. kAlreadyExists, kNoSpace, kQuota, as for all that create.
  virtual Result<Entry> Mknod(const Context& ctx, const Caller& caller, Ino parent,
                              std::string_view name, FileType type, std::uint16_t mode,
                              std::uint32_t rdev) = 0;
  // Makes a file and opens it. If it exists and `exclusive` is false, the existing one is opened.
  virtual Result<Entry> Create(const Context& ctx, const Caller& caller, Ino parent,
                               std::string_view name, std::uint16_t mode, bool exclusive) = 0;
  virtual Result<Entry> Symlink(const Context& ctx, const Caller& caller, Ino parent,
                                std::string_view name, std::string_view target) = 0;
  virtual Result<std::string> ReadLink(const Context& ctx, Ino ino) = 0;
  virtual Result<Entry> Link(const Context& ctx, const Caller& caller, Ino ino, Ino parent,
                             std::string_view name) = 0;
  // Removes the name of anything but a directory. With a trash it moves there; otherwise the data
  // goes with the last name and the last open handle. kIsDirectory, kNotFound.
  virtual Result<void> Unlink(const Context& ctx, const Caller& caller, Ino parent,
                              std::string_view name, bool skip_trash = false) = 0;
  // Several of one directory, in one transaction: a few hundred at most. Names that are not there
  // and directories are passed over. Returns how many are gone; a file with two of the names may
  // need a second call.
  virtual Result<std::uint64_t> UnlinkMany(const Context& ctx, const Caller& caller, Ino parent,
                                           std::span<const std::string> names, bool skip_trash) = 0;
  virtual Result<void> Rmdir(const Context& ctx, const Caller& caller, Ino parent,
                             std::string_view name, bool skip_trash = false) = 0;
  // kNotFound, kAlreadyExists (kNoReplace), kNotEmpty, kIsDirectory, kNotDirectory; kInvalid if a
  // directory would come to lie below itself.
  virtual Result<Entry> Rename(const Context& ctx, const Caller& caller, Ino old_parent,
                               std::string_view old_name, Ino new_parent, std::string_view new_name,
                               RenameMode mode) = 0;
  // One page of a directory, without "." and "..". Start with an empty cursor. An entry that stays
  // in the directory while the pages are read is returned at least once.
  virtual Result<DirPage> ReadDir(const Context& ctx, const Caller& caller, Ino ino,
                                  std::string_view cursor, std::size_t limit, bool with_attrs) = 0;

  virtual Result<std::string> GetXattr(const Context& ctx, Ino ino, std::string_view name) = 0;
  virtual Result<std::vector<std::string>> ListXattr(const Context& ctx, Ino ino) = 0;
  // kAlreadyExists or kNotFound as `mode` demands.
  virtual Result<void> SetXattr(const Context& ctx, Ino ino, std::string_view name,
                                std::string_view value, XattrMode mode) = 0;
  virtual Result<void> RemoveXattr(const Context& ctx, Ino ino, std::string_view name) = 0;

  // -- Data of files --

  // Counts a handle: while it is open, the file outlives its last name (needs a session). Returns
  // fresh attributes, so that readers see what was written before they opened.
  virtual Result<Attr> Open(const Context& ctx, const Caller& caller, Ino ino, unsigned mask) = 0;
  // Ends a handle. Not an operation of the volume unless the file has lost its last name.
  virtual Result<void> Close(const Context& ctx, Ino ino) = 0;
  // All records of a chunk in write order; empty if nothing was ever written. kNotFound if the file
  // is gone.
  virtual Result<std::vector<Slice>> ReadSlices(const Context& ctx, Ino ino,
                                                std::uint32_t index) = 0;
  // An id no one else has; ids are taken from the volume in batches.
  virtual Result<std::uint64_t> NewSliceId(const Context& ctx) = 0;
  // Appends a new slice, whose objects must be stored already, to a chunk. The file grows as
  // needed, and was changed at `mtime` unless somebody else has changed it later. kNotFound if the
  // file is gone: the caller then deletes the slice's objects. Returns the attributes after the
  // write.
  virtual Result<Attr> WriteSlice(const Context& ctx, Ino ino, std::uint32_t index,
                                  const Slice& slice, Timestamp mtime) = 0;
  virtual Result<Attr> Truncate(const Context& ctx, const Caller& caller, Ino ino,
                                std::uint64_t length) = 0;
  virtual Result<Attr> Fallocate(const Context& ctx, const Caller& caller, Ino ino,
                                 FallocateMode mode, std::uint64_t offset,
                                 std::uint64_t length) = 0;
  // Lets bytes of `to` share the slices of `from`. Returns how many bytes were copied (less at the
  // end of the source).
  virtual Result<std::uint64_t> CopyRange(const Context& ctx, Ino from, std::uint64_t from_offset,
                                          Ino to, std::uint64_t to_offset,
                                          std::uint64_t length) = 0;

  // -- In bulk --

  // The tree below (and with) `root` in compact form. From one point in time where the engine has
  // snapshots (SQLite); on others each directory is read once.
  virtual Result<Tree> LoadTree(const Context& ctx, Ino root, bool with_slices) = 0;
  // Makes complete files in few transactions. A file appears with all its data or not at all; files
  // that share a slice must be neighbours and are committed in one transaction, with the slice's
  // references. One answer per file: its inode, or why it failed (kAlreadyExists, kNotDirectory,
  // kQuota, ...). A file that fails by itself does not stop the others; when the engine fails, the
  // files from there on get that error.
  virtual std::vector<Result<Ino>> CommitFiles(const Context& ctx, std::span<const NewFile> files,
                                               const CommitOptions& options) = 0;
  // Removes a name and all that lies below it, many names per transaction. What others add
  // meanwhile may make it fail with kNotEmpty; then call it again.
  virtual Result<RemoveTreeDone> RemoveTree(const Context& ctx, const Caller& caller, Ino parent,
                                            std::string_view name,
                                            const RemoveTreeOptions& options) = 0;
  // Every chunk that has records, in no order; `fn` may stop the scan with an error.
  using ChunkFn =
      std::function<Result<void>(Ino ino, std::uint32_t index, std::vector<Slice> slices)>;
  virtual Result<void> ScanChunks(const Context& ctx, const ChunkFn& fn) = 0;
  // Every slice with an explicit reference count and that count: how many records refer to it; zero
  // or less is garbage. On Redis a slice with a single reference is not listed.
  using SliceRefFn = std::function<Result<void>(SliceKey slice, std::int64_t references)>;
  virtual Result<void> ScanSliceRefs(const Context& ctx, const SliceRefFn& fn) = 0;
  // Slices that compaction replaced and that wait in the trash.
  virtual Result<void> ScanDelayedSlices(const Context& ctx, const SliceRefFn& fn) = 0;

  // -- Usage and quotas --

  // What the volume has on record for the direct children; kNotFound if there is no record.
  virtual Result<DirUsage> GetDirUsage(const Context& ctx, Ino ino) = 0;
  // Counts afresh and replaces the record.
  virtual Result<DirUsage> SyncDirUsage(const Context& ctx, Ino ino) = 0;
  // Counts a whole tree. Not one transaction.
  virtual Result<TreeSummary> Summarize(const Context& ctx, Ino ino) = 0;
  // Sets the limits of a directory and counts its present usage.
  virtual Result<DirQuota> SetDirQuota(const Context& ctx, Ino ino, std::int64_t max_space,
                                       std::int64_t max_inodes) = 0;
  virtual Result<DirQuota> GetDirQuota(const Context& ctx, Ino ino) = 0;
  virtual Result<void> RemoveDirQuota(const Context& ctx, Ino ino) = 0;

  // -- Sessions and deletion --

  // Registers this client and starts its heartbeat, which also cleans up after dead clients and
  // deletes what has waited long enough, under the leases that all clients share.
  virtual Result<std::uint64_t> OpenSession(const Context& ctx, const SessionInfo& info) = 0;
  // Gives back what the session holds. Also done by the destructor, as well as it can.
  virtual Result<void> CloseSession(const Context& ctx) = 0;
  virtual Result<std::vector<SessionRecord>> ListSessions(const Context& ctx) = 0;

  // How objects of a slice are deleted; called from the deletion thread. Without one nothing is
  // deleted, and files wait for a client that has one.
  using SliceDeleter = std::function<Result<void>(const Context& ctx, SliceKey slice)>;
  virtual void SetSliceDeleter(SliceDeleter deleter) = 0;
  // Instead, for stores that delete many objects with one request. One answer for each slice.
  using BulkSliceDeleter = std::function<std::vector<Result<void>>(
      const Context& ctx, std::span<const SliceKey> slices)>;
  virtual void SetBulkSliceDeleter(BulkSliceDeleter deleter) = 0;
  // Waits until all deletions begun by calls of this store are done.
  virtual Result<void> DrainDeletions(const Context& ctx) = 0;
  virtual Result<std::vector<DeletedFile>> ListDeletedFiles(const Context& ctx,
                                                            std::size_t limit) = 0;
  // One round of the background jobs, as the heartbeat does it; `ignore_leases` for gc and tests.
  virtual Result<void> RunMaintenance(const Context& ctx, bool ignore_leases) = 0;
};

struct MetaOptions {
  bool read_only = false;
  std::chrono::milliseconds heartbeat{12'000};  // 1 s to 10 min
  bool background_jobs = true;                  // clean up after others
  Clock* clock = &Clock::System();
  const Logger* log = nullptr;  // borrowed; silence if null
};

// Opens the database at `url`: sqlite3://PATH, redis://..., rediss://..., unix://... The volume in
// it is read by Load or made by Format. kInvalid if the URL is of no kind we know.
Result<std::unique_ptr<MetaStore>> OpenMetaStore(const Context& ctx, const std::string& url,
                                                 const MetaOptions& options);

}  // namespace paddleop::volume
