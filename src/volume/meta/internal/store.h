#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/mutex.h"
#include "volume/meta/internal/changes.h"
#include "volume/meta/internal/deletion_queue.h"
#include "volume/meta/internal/engine.h"
#include "volume/meta/internal/quota_table.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {

// The rules of the file system over any engine. Each operation with rules of its own has a file.
class EngineMetaStore final : public MetaStore {
 public:
  EngineMetaStore(std::unique_ptr<MetaEngine> engine, const MetaOptions& options);
  ~EngineMetaStore() override;

  // store.cc
  Result<void> Format(const Context& ctx, const Setting& setting, bool force) override;
  Result<Setting> Load(const Context& ctx) override;
  Result<void> UpdateSetting(const Context& ctx, const Setting& setting) override;
  Result<StatFs> GetStatFs(const Context& ctx) override;

  // lookup.cc
  Result<Entry> Lookup(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                       std::optional<Attr>* directory = nullptr) override;
  Result<std::vector<std::optional<Entry>>> LookupMany(
      const Context& ctx, std::span<const ChildName> children) override;
  Result<Entry> Resolve(const Context& ctx, const Caller& caller, Ino base,
                        std::string_view path) override;
  Result<Attr> GetAttr(const Context& ctx, Ino ino) override;
  Result<std::vector<std::optional<Attr>>> GetAttrs(const Context& ctx,
                                                    std::span<const Ino> inodes) override;
  Result<DirPage> ReadDir(const Context& ctx, const Caller& caller, Ino ino,
                          std::string_view cursor, std::size_t limit, bool with_attrs) override;
  Result<std::string> ReadLink(const Context& ctx, Ino ino) override;

  // setattr.cc
  Result<Attr> SetAttr(const Context& ctx, const Caller& caller, Ino ino,
                       const AttrChange& change) override;

  // create.cc
  Result<Entry> Mkdir(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                      std::uint16_t mode) override;
  Result<Entry> Mknod(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                      FileType type, std::uint16_t mode, std::uint32_t rdev) override;
  Result<Entry> Create(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                       std::uint16_t mode, bool exclusive) override;
  Result<Entry> Symlink(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                        std::string_view target) override;
  // link.cc
  Result<Entry> Link(const Context& ctx, const Caller& caller, Ino ino, Ino parent,
                     std::string_view name) override;

  // unlink.cc
  Result<void> Unlink(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                      bool skip_trash) override;
  Result<std::uint64_t> UnlinkMany(const Context& ctx, const Caller& caller, Ino parent,
                                   std::span<const std::string> names, bool skip_trash) override;
  Result<void> Rmdir(const Context& ctx, const Caller& caller, Ino parent, std::string_view name,
                     bool skip_trash) override;
  // rename.cc
  Result<Entry> Rename(const Context& ctx, const Caller& caller, Ino old_parent,
                       std::string_view old_name, Ino new_parent, std::string_view new_name,
                       RenameMode mode) override;

  // xattr.cc
  Result<std::string> GetXattr(const Context& ctx, Ino ino, std::string_view name) override;
  Result<std::vector<std::string>> ListXattr(const Context& ctx, Ino ino) override;
  Result<void> SetXattr(const Context& ctx, Ino ino, std::string_view name, std::string_view value,
                        XattrMode mode) override;
  Result<void> RemoveXattr(const Context& ctx, Ino ino, std::string_view name) override;

  // open.cc
  Result<Attr> Open(const Context& ctx, const Caller& caller, Ino ino, unsigned mask) override;
  Result<void> Close(const Context& ctx, Ino ino) override;

  // data.cc
  Result<std::vector<Slice>> ReadSlices(const Context& ctx, Ino ino, std::uint32_t index) override;
  Result<std::uint64_t> NewSliceId(const Context& ctx) override;
  Result<Attr> WriteSlice(const Context& ctx, Ino ino, std::uint32_t index, const Slice& slice,
                          Timestamp mtime) override;
  Result<Attr> Truncate(const Context& ctx, const Caller& caller, Ino ino,
                        std::uint64_t length) override;
  Result<Attr> Fallocate(const Context& ctx, const Caller& caller, Ino ino, FallocateMode mode,
                         std::uint64_t offset, std::uint64_t length) override;
  // copy.cc
  Result<std::uint64_t> CopyRange(const Context& ctx, Ino from, std::uint64_t from_offset, Ino to,
                                  std::uint64_t to_offset, std::uint64_t length) override;

  // commit.cc
  std::vector<Result<Ino>> CommitFiles(const Context& ctx, std::span<const NewFile> files,
                                       const CommitOptions& options) override;
  // remove_tree.cc
  Result<RemoveTreeDone> RemoveTree(const Context& ctx, const Caller& caller, Ino parent,
                                    std::string_view name,
                                    const RemoveTreeOptions& options) override;
  // scan.cc
  Result<Tree> LoadTree(const Context& ctx, Ino root, bool with_slices) override;
  Result<void> ScanChunks(const Context& ctx, const ChunkFn& fn) override;
  Result<void> ScanSliceRefs(const Context& ctx, const SliceRefFn& fn) override;
  Result<void> ScanDelayedSlices(const Context& ctx, const SliceRefFn& fn) override;

  // usage.cc
  Result<DirUsage> GetDirUsage(const Context& ctx, Ino ino) override;
  Result<DirUsage> SyncDirUsage(const Context& ctx, Ino ino) override;
  Result<TreeSummary> Summarize(const Context& ctx, Ino ino) override;
  Result<DirQuota> SetDirQuota(const Context& ctx, Ino ino, std::int64_t max_space,
                               std::int64_t max_inodes) override;
  Result<DirQuota> GetDirQuota(const Context& ctx, Ino ino) override;
  Result<void> RemoveDirQuota(const Context& ctx, Ino ino) override;

  // session.cc
  Result<std::uint64_t> OpenSession(const Context& ctx, const SessionInfo& info) override;
  Result<void> CloseSession(const Context& ctx) override;
  Result<std::vector<SessionRecord>> ListSessions(const Context& ctx) override;

  // maintenance.cc
  void SetSliceDeleter(SliceDeleter deleter) override;
  void SetBulkSliceDeleter(BulkSliceDeleter deleter) override;
  Result<void> DrainDeletions(const Context& ctx) override;
  Result<std::vector<DeletedFile>> ListDeletedFiles(const Context& ctx, std::size_t limit) override;
  Result<void> RunMaintenance(const Context& ctx, bool ignore_leases) override;

 private:
  using Body = std::function<Result<void>(MetaTxn& txn, Changes& changes)>;

  // What removes a name: filled by reads, consumed by RemoveFile.
  struct Removal {
    Ino parent = kNoIno;
    std::string_view name;
    Edge edge;
    std::optional<Attr> attr;  // absent if the entry points nowhere
    Ino trash = kNoIno;        // hourly directory, or none
    bool in_trash_already = false;
  };

  // -- store.cc --
  // kInvalid before Load or Format; kNotSupported if the volume may not be written.
  Result<void> CheckWritable();
  // Runs `body` as a transaction, writes the sums it left in `changes`, announces them after
  // commit.
  Result<void> Run(const Context& ctx, const Body& body);
  Timestamp Now() const { return Timestamp::From(options_.clock->WallNow()); }
  std::int64_t NowSeconds() const { return Now().seconds; }
  // `count` inodes in a row that are ours.
  Result<Ino> NewInodes(const Context& ctx, std::uint64_t count);
  bool dir_stats();
  int trash_days();
  // Statistics of `dir` and quotas above it.
  Result<void> Account(const Context& ctx, Changes& changes, Ino dir, const DirUsage& delta);
  // The same for all directories that hold a name of `ino`; kNoSpace or kQuota if there is no room
  // for what it grows by.
  Result<void> AccountFile(const Context& ctx, MetaTxn& txn, Changes& changes, Ino ino,
                           const Attr& attr, const DirUsage& delta);
  // Statistics and quotas when an inode with its tree moves; kQuota if it does not fit (rename.cc).
  Result<void> AccountMove(const Context& ctx, Changes& changes, Ino ino, const Attr& attr,
                           Ino from, Ino to);
  // kNoSpace or kQuota if a new child of `dir` does not fit.
  Result<void> CheckRoom(const Context& ctx, Ino dir, std::int64_t space, std::int64_t inodes);
  // Marks a directory as changed. False if it changed a moment ago, so that it need not be written.
  static bool TouchDirectory(Attr& dir, const Timestamp& now);

  // -- create.cc --
  struct NewNode {
    FileType type = FileType::kFile;
    std::uint16_t mode = 0;
    std::uint32_t rdev = 0;
    std::string_view target;
  };
  // `existing` takes what lies there already, if it may be reused.
  Result<Entry> MakeNode(const Context& ctx, const Caller& caller, Ino parent,
                         std::string_view name, const NewNode& node,
                         std::optional<Entry>* existing);

  // -- trash.cc --
  // The directory of this hour, made if need be; kNoIno if names removed from `parent` skip the
  // trash.
  Result<Ino> TrashFor(const Context& ctx, Ino parent, bool skip_trash);
  Result<Ino> MakeTrashDirectory(const Context& ctx, const std::string& hour);
  // Runs `body` with the directory that TrashFor() tells. Somebody may have removed that since it
  // was last seen: `body` reads its attributes, with its first set and so apart from the entries of
  // the directory (ReadPlan::WatchKeys says why), and gives them to CheckTrashDirectory, whose
  // error makes it run again with another.
  using TrashBody = std::function<Result<void>(MetaTxn& txn, Changes& changes, Ino trash)>;
  Result<void> RunWithTrash(const Context& ctx, Ino parent, bool skip_trash, const TrashBody& body);

  // -- unlink.cc --
  // Takes the name away from a file that is no directory; `keep_edge` where the caller overwrites
  // it.
  Result<void> RemoveFile(const Context& ctx, MetaTxn& txn, Changes& changes,
                          const Removal& removal, const Timestamp& now, bool keep_edge);
  Result<void> RemoveDirectory(const Context& ctx, MetaTxn& txn, Changes& changes,
                               const Removal& removal, const Timestamp& now, bool keep_edge);
  // Rmdir, also of what only the cleaning of the trash may remove.
  Result<void> RemoveEmpty(const Context& ctx, const Caller& caller, Ino parent,
                           std::string_view name, bool skip_trash);
  // -- remove_tree.cc --
  // With `keep_top` the directory itself stays.
  Result<RemoveTreeDone> RemoveAll(const Context& ctx, const Caller& caller, Ino parent,
                                   std::string_view name, const RemoveTreeOptions& options,
                                   bool keep_top);
  // -- open.cc --
  // For who takes the last name of a file away: false if nobody has it open, and then nobody opens
  // it until EndRemoving() tells what came of it (Run does).
  bool IsKeptOpen(Ino ino, Changes& changes);
  void EndRemoving(std::span<const Ino> inodes);
  // Lies in the trash, and nobody here has had it open since before: removing an open file takes
  // its name away and nothing else.
  bool IsThrownAway(Ino ino, const Attr& attr);
  // Whether the file has lost its last name and is there only because other clients have it open.
  bool IsNameless(Ino ino, const Attr& attr);
  // Whether its extended attributes may be changed.
  Result<void> CheckXattr(Ino ino, const std::optional<Attr>& attr);
  // Counts a handle and reads the attributes.
  Result<Attr> NoteOpen(const Context& ctx, Ino ino);
  // The same for a file that was just made.
  void NoteMade(Ino ino);
  Result<void> CheckOpen(const Caller& caller, Ino ino, const Attr& attr, unsigned mask);
  // Of a handle that did not come to be.
  void CloseFailed(const Context& ctx, Ino ino);
  // Files that have lost their last name while they were open: those that still are live on, the
  // others are deleted.
  Result<void> KeepSustained(const Context& ctx, std::span<const Ino> inodes);
  // Deletes a file that is in removing_, or notes that it has to be tried again.
  Result<void> FinishSustained(const Context& ctx, Ino ino);
  // What could not be deleted when it was closed.
  Result<void> RetrySustained(const Context& ctx);
  // Ends the life of a file that only its open handles kept.
  Result<void> DeleteSustained(const Context& ctx, std::uint64_t sid, Ino ino);

  // -- data.cc --
  // Removes the chunks behind the new end, so many as one transaction should: returns the end that
  // can be had with it.
  static Result<std::uint64_t> CutChunks(MetaTxn& txn, Ino ino, std::uint64_t before,
                                         std::uint64_t length);
  // Zeroes ranges and sets the length, as truncate and fallocate need it; of a very large file only
  // as far as one transaction should cut it.
  Result<Attr> ChangeLength(const Context& ctx, MetaTxn& txn, Changes& changes, Ino ino, Attr attr,
                            std::uint64_t length, const Timestamp& now);

  // -- commit.cc --
  Result<void> CommitBatch(const Context& ctx, std::span<const NewFile> files,
                           const CommitOptions& options, std::span<Result<Ino>> answers);

  // -- session.cc and maintenance.cc --
  Result<void> Heartbeat(const Context& ctx);
  void HeartbeatLoop(const std::stop_token& stop);
  // Runs the background jobs after each beat, but beside those that follow.
  void MaintenanceLoop(const std::stop_token& stop);
  Result<void> CleanSession(const Context& ctx, std::uint64_t sid);
  Result<void> CleanStaleSessions(const Context& ctx);
  Result<void> CleanDeletedFiles(const Context& ctx, bool all);
  Result<void> CleanSlices(const Context& ctx);
  Result<void> CleanTrash(const Context& ctx);

  const MetaOptions options_;
  const std::unique_ptr<MetaEngine> engine_;
  QuotaTable quotas_;
  DeletionQueue deletions_;

  Mutex mutex_;
  std::optional<Setting> setting_ GUARDED_BY(mutex_);
  Result<void> writable_ GUARDED_BY(mutex_);  // what the setting says
  bool prepared_ GUARDED_BY(mutex_) = false;
  std::uint64_t session_ GUARDED_BY(mutex_) = 0;
  std::string session_json_ GUARDED_BY(mutex_);
  std::string trash_hour_ GUARDED_BY(mutex_);
  Ino trash_ino_ GUARDED_BY(mutex_) = kNoIno;

  Mutex ids_mutex_;  // held while a batch is fetched: others would fetch one too
  std::uint64_t next_inode_ GUARDED_BY(ids_mutex_) = 0;
  std::uint64_t end_inode_ GUARDED_BY(ids_mutex_) = 0;
  std::uint64_t next_slice_ GUARDED_BY(ids_mutex_) = 0;
  std::uint64_t end_slice_ GUARDED_BY(ids_mutex_) = 0;

  Mutex open_mutex_;
  struct OpenFile {
    std::uint32_t count = 0;
    // It lay in the trash already when it was opened; unknown until its first opener has looked.
    std::optional<bool> from_trash;
  };
  std::unordered_map<Ino, OpenFile> open_files_ GUARDED_BY(open_mutex_);
  std::unordered_set<Ino> sustained_ GUARDED_BY(open_mutex_);
  std::unordered_set<Ino> undeleted_ GUARDED_BY(open_mutex_);  // closed, but still in the volume
  // Files that are about to vanish, and by how many calls.
  std::unordered_map<Ino, std::uint32_t> removing_ GUARDED_BY(open_mutex_);
  CondVar open_changed_;  // of removing_

  Mutex jobs_mutex_;
  CondVar jobs_changed_;
  bool jobs_due_ GUARDED_BY(jobs_mutex_) = false;

  // Last: they end before what they use.
  std::jthread maintenance_;
  std::jthread heartbeat_;
};

// kPermission if a sticky directory keeps `caller` from removing or renaming a child.
Result<void> CheckSticky(const Caller& caller, const Attr& dir, const Attr& child);
// kPermission if entries of `dir` may not be added, or (`removing`) taken away.
Result<void> CheckDirWritable(const Caller& caller, const Attr& dir, bool removing);
std::unexpected<Status> NoEntry(Ino parent, std::string_view name);
std::unexpected<Status> NoInode(Ino ino);
// kExpired if the trash directory `trash` (if any) was not found.
Result<void> CheckTrashDirectory(Ino trash, const std::optional<Attr>& attr);
// kPermission for names the root keeps for itself.
Result<void> CheckNewName(Ino parent, std::string_view name);

}  // namespace paddleop::volume
