// One directory of a disk cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "volume/cache/disk_cache.h"
#include "volume/cache/internal/block_file.h"
#include "volume/cache/internal/counters.h"
#include "volume/cache/internal/part_file.h"

namespace paddleop::volume::cache {

inline constexpr std::string_view kTemporary = "/.samplefs.tmp";  // below the root

struct Metrics {
  explicit Metrics(MetricsRegistry& registry);

  MetricsRegistry::Counter& hits;
  MetricsRegistry::Counter& hit_bytes;
  MetricsRegistry::Counter& misses;
  MetricsRegistry::Counter& miss_bytes;
  MetricsRegistry::Counter& stored;
  MetricsRegistry::Counter& refused;
  MetricsRegistry::Counter& evicted;
  MetricsRegistry::Counter& corrupt;
  MetricsRegistry::Counter& errors;
  MetricsRegistry::Gauge& out;
};

// What a directory needs of the cache it belongs to.
struct DirEnvironment {
  const DiskCacheOptions& options;
  const Logger& log;
  Metrics& metrics;
  VerifiedTable& verified;
  // Drops the block's open files; with nullopt, those of all blocks.
  std::function<void(const std::optional<BlockId>& block)> forget;
  // True if the block's file is open, so it was read lately.
  std::function<bool(const BlockId& block)> in_use;
  // The directory was attached, perhaps with another id than before.
  std::function<void()> attached;
};

// Thread-safe. Lock order: evict_mutex_, then a Turn (which has the directory's file lock), then
// lock_mutex_ or state_mutex_, which are held for no system call that could wait.
class CacheDir {
 public:
  CacheDir(CacheDirectory directory, const DirEnvironment& env);
  ~CacheDir();

  // Makes the folders and maps the counters; again after a failure. kInvalid: another volume's.
  Result<void> Attach();
  // Says why the first attempt has failed; upkeep makes others.
  void NotAttached(const Context& ctx, const std::string& why);
  bool usable() const { return usable_.load(std::memory_order_relaxed); }
  // False: something has been under way there for a while, and who comes would wait beside it.
  bool answers() const { return answers_.load(std::memory_order_relaxed); }
  const CacheDirectory& directory() const { return directory_; }
  // What the official client calls this directory by, when it chooses one for a block; empty until
  // the directory was attached once.
  std::string id() const EXCLUDES(state_mutex_);

  // -- Files (cache_dir.cc) --

  std::shared_ptr<OpenBlock> OpenWhole(const BlockId& block);
  std::shared_ptr<PartFile> OpenPart(const BlockId& block,
                                     PartFile::Access access = PartFile::Access::kRead);
  bool HasWhole(const BlockId& block);
  bool HasPart(const BlockId& block) const;
  // kNoSpace if there is no room; the caller may Evict and try again.
  Result<void> PutWhole(const BlockId& block, std::span<const std::byte> plain);
  Result<void> PutRange(const BlockId& block, std::uint32_t offset,
                        std::span<const std::byte> data);
  // A damaged file: logged, counted, removed with its pins.
  void Damaged(const BlockId& block, bool part, const std::string& why);
  // The same without removing it, for who does that himself.
  void TellDamaged(const BlockId& block, bool part, const std::string& why);
  // Opening or reading a block's file failed with this errno. If that may be the file's own
  // trouble, it is removed like a damaged one, so that a good one can take its place.
  void Unreadable(std::string_view what, const BlockId& block, bool part, int error);

  // -- Pins and removal (pins.cc) --

  Result<bool> Pin(const BlockId& block, std::string_view plan);
  Result<void> Trim(const BlockId& block, std::span<const BlockFile::Span> keep,
                    std::string_view family);
  Result<DiskCache::Removed> Unpin(const Context& ctx, std::string_view plan);
  Result<DiskCache::Removed> Clear(const BlockId& block, std::string_view plan = {});
  Result<DiskCache::Removed> ClearAll(const Context& ctx);
  // Removes what clears have moved away and left, if they were interrupted or killed. Until then it
  // takes space that nobody counts.
  Result<void> RemoveCleared(const Context& ctx);
  std::vector<std::string> Plans() const;

  // -- Pins that the official client has taken away (mend.cc) --
  //
  // It looks at links only when it scans the directory. What it does not know to be pinned it
  // replaces by a file of its own, or removes when it makes room; the pin is then a file that
  // nobody finds.

  // Gives the block its name back if a plan has pinned it; false if none has.
  bool FindPinned(const BlockId& block);
  // The same for all blocks, by walking; plans whose file was replaced get the new one.
  Result<void> MendPins(const Context& ctx);

  // -- Upkeep (upkeep.cc) --

  // Room that was made for somebody, as long as it lives: others who need some do not count on it.
  class Room {
   public:
    Room(CacheDir& dir, std::uint64_t bytes) : dir_(&dir), bytes_(bytes) {
      dir_->promised_.fetch_add(bytes_);
    }
    Room(Room&& other) noexcept : dir_(std::exchange(other.dir_, nullptr)), bytes_(other.bytes_) {}
    Room& operator=(Room&&) = delete;
    ~Room() {
      if (dir_ != nullptr) dir_->promised_.fetch_sub(bytes_);
    }

   private:
    CacheDir* dir_;
    std::uint64_t bytes_;
  };
  // Makes room for one more block; nullopt if only pinned blocks are left.
  std::optional<Room> MakeRoom(const Context& ctx, std::uint64_t bytes);
  Result<void> Recount(const Context& ctx);
  // One round: health, counters, free space, capacity. May hang with the disk.
  void Upkeep(const Context& ctx);
  // Looks how long operations have been under way; takes the directory out if that is too long.
  // Never waits.
  void Watch();
  Operations& operations() { return operations_; }
  // An operation failed with this errno; may take the directory out. What may be one file's own
  // trouble counts once for that file, so that a bad sector does not cost the whole disk. What we
  // have no right to open does not count.
  enum class Blame { kDisk, kFile, kRights };
  void Failed(std::string_view what, const std::string& path, int error,
              Blame blame = Blame::kDisk);
  // Why nothing of this size is admitted now: kNoSpace, or kUnavailable if the disk does not
  // answer.
  Result<void> Admits(std::uint64_t bytes) const;
  void WantRoom() { wants_room_.store(true, std::memory_order_relaxed); }
  CacheDirectoryStatus Status() const;
  Result<void> ForEachBlock(const Context& ctx, const DiskCache::BlockFn& fn) const;

  // Null until the directory was attached once; then valid as long as this object.
  SharedCounters* counters() const { return counters_.load(std::memory_order_acquire); }

 private:
  class Turn;
  struct Space {
    std::uint64_t total = 0;
    std::uint64_t available = 0;
    std::uint64_t files = 0;
    std::uint64_t files_available = 0;
  };

  // Folders get the execute bit where files have the read bit, as the official client does it.
  mode_t folder_mode() const {
    const mode_t mode = env_.options.file_mode;
    return mode | ((mode & 0444) >> 2);
  }
  // What killed processes had begun to write, when nobody else is here.
  Result<void> RemoveBegun() const;
  // What clears have moved away, or all else that is being written.
  std::vector<std::string> Temporaries(bool cleared) const;
  // A new name among the files being written; processes of other containers have their own.
  std::string TemporaryPath(std::string_view kind);
  std::string WholePath(const BlockId& block) const;
  std::string PartPath(const BlockId& block) const;
  std::string PinPath(std::string_view plan, const BlockId& block, bool part) const;
  Result<std::string> WriteTemporary(const BlockId& block, std::span<const std::byte> plain);
  Result<bool> Publish(const std::string& temporary, const BlockId& block, std::uint64_t bytes);
  Result<void> WriteRange(const BlockId& block, std::uint32_t offset,
                          std::span<const std::byte> data, std::shared_ptr<PartFile>& file);
  Result<void> ReplacePart(const BlockId& block);
  Result<bool> PinFile(const BlockId& block, std::string_view plan, bool part);
  // Makes the file of a whole block and its pins one again. Under the lock.
  void Mend(const BlockId& block);
  // What the last listing of the plans found.
  std::vector<std::string> KnownPlans() const EXCLUDES(state_mutex_);
  void ListPlans() EXCLUDES(state_mutex_);
  bool HasPin(const BlockId& block, bool part, const std::vector<std::string>& plans) const;
  // Removes the file of a block and the pins of these plans under the lock; nullopt if there was
  // none.
  std::optional<std::uint64_t> RemoveFile(const std::string& path, const BlockId& block, bool part,
                                          const std::vector<std::string>& plans);
  struct Victim {
    std::int64_t read = 0;  // when it was last read, seconds
    std::uint64_t bytes = 0;
    BlockId block;
    bool part = false;
    bool operator<(const Victim& other) const { return read < other.read; }
  };
  Result<std::vector<Victim>> OldestBlocks(const Context& ctx) const;
  void EvictBatch(std::span<const Victim> victims, DiskCache::Removed& freed);
  struct Totals {
    std::int64_t blocks = 0, bytes = 0, pinned = 0, parts = 0, part_bytes = 0;
  };
  Result<Totals> CountFiles(const Context& ctx) const;
  static Totals Counted(const SharedCounters& page);
  void Accept(SharedCounters& page, const Totals& seen);
  // A process that was killed inside a change has left the counters wrong.
  bool SomebodyDied();
  bool Probe();
  // Before anything is made there. kInvalid: it lies in the cache of a volume. kUnavailable: its
  // disk has been unmounted, so that all that would be made were on the one below; another disk in
  // its place is fine, and so is a cache that was moved.
  Result<void> CheckPlace() const EXCLUDES(state_mutex_);
  // What has been under way for too long, in words; empty if nothing has.
  std::string Hanging() const;
  // True if it was in use.
  bool TakeOut(const std::string& problem);
  void SetProblem(std::string problem);
  std::optional<Space> DiskSpace() const;
  struct Shortage {
    std::uint64_t bytes = 0;
    std::uint64_t files = 0;
  };
  // What must go for so many bytes to come.
  Shortage ShortOf(std::uint64_t bytes) const;
  // Frees at least so much by evicting unpinned blocks, and `spare` bytes more if it can; false if
  // it could not.
  bool Evict(const Context& ctx, const Shortage& shortage, std::uint64_t spare)
      REQUIRES(evict_mutex_);

  const CacheDirectory directory_;
  const DirEnvironment env_;
  const std::string root_;  // <path>/<UUID>
  std::atomic<bool> usable_ = false;
  std::atomic<bool> answers_ = true;
  Operations operations_;
  std::atomic<SharedCounters*> counters_ = nullptr;  // the last of all_counters_
  std::atomic<bool> wants_room_ = false;
  bool told_cleared_ = false;  // that it cannot be removed; of the upkeep
  const std::string token_;    // in names of this object's temporary files
  std::atomic<std::uint64_t> next_temporary_ = 0;

  Mutex evict_mutex_;
  std::chrono::steady_clock::time_point fruitless_ GUARDED_BY(evict_mutex_);
  std::atomic<bool> tried_ = false;          // in vain, at fruitless_
  std::atomic<std::uint64_t> promised_ = 0;  // bytes of Room

  // True for some seconds after the file lock was not to be had: whoever can do without it should.
  bool LockedOut() const EXCLUDES(lock_mutex_);

  mutable Mutex lock_mutex_;
  CondVar turn_ended_;
  bool turn_taken_ GUARDED_BY(lock_mutex_) = false;  // by one of our threads
  std::shared_ptr<const UniqueFd> lock_file_ GUARDED_BY(lock_mutex_);
  // When the file lock was last not to be had; unset once it was.
  std::optional<std::chrono::steady_clock::time_point> locked_at_ GUARDED_BY(lock_mutex_);

  mutable Mutex state_mutex_;
  // One for each time the directory was replaced under us; readers may still count in an old one.
  std::vector<std::unique_ptr<SharedCounters>> all_counters_ GUARDED_BY(state_mutex_);
  std::string id_ GUARDED_BY(state_mutex_);
  // Of the disk that has the directory; empty until it was attached once.
  std::string mount_point_ GUARDED_BY(state_mutex_);
  std::string problem_ GUARDED_BY(state_mutex_);
  std::vector<std::string> plans_ GUARDED_BY(state_mutex_);
  struct IoError {
    std::chrono::steady_clock::time_point at;
    std::string path;  // of the file to blame; empty: the disk
  };
  std::deque<IoError> io_errors_ GUARDED_BY(state_mutex_);  // of the last minute
  // Of those that we may not open, one for each file; bounded, and forgotten after a minute.
  std::deque<IoError> rights_errors_ GUARDED_BY(state_mutex_);
  std::chrono::steady_clock::time_point full_until_ GUARDED_BY(state_mutex_);
  std::chrono::steady_clock::time_point recount_at_ GUARDED_BY(state_mutex_);
  std::chrono::steady_clock::time_point probe_at_ GUARDED_BY(state_mutex_);
};

// Holds .samplefs.lock against other processes, and keeps our own threads one after the other. A
// process that was stopped while it had the lock must not stop us, too: the wait is bounded, and
// after one that was in vain nobody waits for long until the lock was had again.
class CacheDir::Turn {
 public:
  explicit Turn(CacheDir& dir);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  // False if another process holds the lock for too long, or the file cannot be opened.
  bool held() const { return held_; }

 private:
  bool Queue(std::chrono::steady_clock::time_point deadline);
  bool LockFile(std::chrono::steady_clock::time_point deadline);

  CacheDir& dir_;
  std::shared_ptr<const UniqueFd> file_;  // stays open even if the directory is attached anew
  bool taken_ = false;
  bool held_ = false;
};

}  // namespace paddleop::volume::cache
