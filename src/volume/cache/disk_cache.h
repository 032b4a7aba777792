#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "volume/cache/cache_options.h"
#include "volume/cache/cache_store.h"
#include "volume/format/object_key.h"

namespace paddleop::volume {

struct DiskCacheOptions {
  std::string uuid;  // of the volume
  BlockLayout layout;
  std::vector<CacheDirectory> directories;
  ChecksumLevel checksum = ChecksumLevel::kExtend;
  bool direct_reads = false;
  mode_t file_mode = 0600;
  std::size_t max_open_files = 512;
  std::chrono::milliseconds upkeep_interval{1000};  // free space, eviction, health
  // How often a walk corrects the counters for what the official client added and removed. Zero:
  // never, and no upkeep thread at all (for commands that only look).
  std::chrono::seconds recount_interval{3600};
  // How long anybody waits for another process that changes names in a directory.
  std::chrono::milliseconds lock_patience{10'000};
  // Readers, and who keeps what was read, pass over a directory where opening, reading or writing
  // has been under way for longer than that, until it has answered. After the second time the
  // directory is taken out of use. By the machine's clock, whatever `clock` is.
  std::chrono::milliseconds answer_limit{5'000};
  std::chrono::milliseconds hang_limit{30'000};
  Clock* clock = &Clock::System();

  Result<void> Validate() const;
};

// A whole block's open file: the block's plain bytes lie at offset 0. The descriptor stays valid as
// long as the object, even if the file is evicted meanwhile. Thread-safe.
class BlockFile {
 public:
  virtual ~BlockFile() = default;

  virtual int fd() const = 0;
  // True: opened with O_DIRECT, so offset, length and memory of a read must be multiples of 4 KiB.
  // A read may go past the block's end (checksums follow it) but returns short at the file's.
  virtual bool direct() const = 0;
  // The same for the files of one directory.
  virtual const void* directory() const = 0;
  // True: the file system has its files in memory, so that no read waits for a disk.
  virtual bool in_memory() const = 0;
  virtual std::uint32_t length() const = 0;

  // What to read so that Verify can check all of [offset, offset + size): wider until every piece
  // it touches (of 8 KiB, or 32 KiB where the file has no finer checksums) was verified once by
  // this process, then as asked. If direct(), always whole 4 KiB pages, the last of which may reach
  // past the block and even the file.
  struct Span {
    std::uint32_t offset = 0;
    std::uint32_t size = 0;
  };
  virtual Span ToRead(std::uint32_t offset, std::uint32_t size) const = 0;
  // Checks bytes read at `offset`, which ToRead named; what lies past the block is passed over.
  // False: they cannot be trusted. Read may still have the right ones, and finds out what is wrong.
  virtual bool Verify(std::uint32_t offset, std::span<const std::byte> bytes) = 0;
  // True: Verify of the bytes of `span`, which ToRead named, will read nothing from the file.
  virtual bool VerifiesAtOnce(const Span& span) const = 0;
  // Reads what Verify needs for that. False: it could not be read.
  virtual bool Prepare(const Span& span) = 0;
  // Reads and verifies. A file that is damaged is removed, with a warning and a metric.
  virtual bool Read(std::uint32_t offset, std::span<std::byte> out) = 0;
};

// kInvalid if it cannot name a plan: 1 to 128 letters, digits, '-', '_' and '.', no '.' first.
Result<void> ValidatePlan(std::string_view plan);

// State of one directory, from counters.
struct CacheDirectoryStatus {
  CacheDirectory directory;
  bool usable = true;
  bool admitting = true;  // false: full of pinned blocks, or the disk has too little space left
  std::string problem;    // why it is not usable or not admitting
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;         // of all files: blocks and parts
  std::uint64_t pinned_bytes = 0;  // part of `bytes`
  std::uint64_t part_blocks = 0;   // blocks of which only ranges are here
  std::uint64_t part_bytes = 0;    // part of `bytes`
  std::uint64_t disk_total = 0;
  std::uint64_t disk_free = 0;
  // When the counters were last found by a walk. The epoch: not yet, so they may be wrong.
  std::chrono::system_clock::time_point counted;
};

// What readers of the directories, in all processes, found since the counters exist.
struct CacheTraffic {
  std::uint64_t hits = 0;
  std::uint64_t hit_bytes = 0;
  std::uint64_t misses = 0;
  std::uint64_t miss_bytes = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t evicted = 0;
};

// Blocks in directories, in the official client's layout and with its checksums, so that it and any
// number of our processes use a directory together: file names are the index, nothing is kept in
// the heap but open files.
//
//   <directory>/<UUID>/raw/chunks/...        whole blocks
//   <directory>/<UUID>/part/chunks/...       ranges of blocks: sparse, see internal/part_file.h
//   <directory>/<UUID>/pinned/<plan>/...     hard links: what a warm-up wants to stay
//   <directory>/<UUID>/.samplefs.counters    counters all processes share, mapped
//   <directory>/<UUID>/.samplefs.lock        held while pins change or blocks are evicted
//
// Unpinned blocks leave, least recently read first, when the capacity or the free space of the disk
// asks for it; pinned blocks stay, and when only they are left nothing more is admitted. A
// directory that fails or hangs is left alone and tried again later. Damaged files are a warning, a
// metric and a miss, and are removed.
//
// Thread-safe.
class DiskCache : public CacheStore {
 public:
  // Makes the directories. One that cannot be used now, or is another volume's, is left out, with a
  // warning, until it can. kInvalid: an option is wrong.
  static Result<std::unique_ptr<DiskCache>> Open(const Context& ctx,
                                                 const DiskCacheOptions& options, const Logger& log,
                                                 MetricsRegistry& metrics);

  // -- Reading: Read() of CacheStore also serves from ranges --

  // The open file of a whole block, or null. Kept open for the next caller; counts no hit. To be
  // held only while reading: one that is held for longer than `hang_limit` is taken for a read that
  // does not come back.
  virtual std::shared_ptr<BlockFile> Find(const BlockId& block) = 0;
  // The same for a file that is open already; never waits for a disk.
  virtual std::shared_ptr<BlockFile> FindOpen(const BlockId& block) = 0;
  // True if Read would find all of these bytes, going by names and bitmaps.
  virtual bool ContainsRange(const BlockId& block, std::uint32_t offset, std::uint32_t size) = 0;
  // How many bytes of the block are kept as ranges; 0 if it is here whole.
  virtual std::uint64_t RangeBytes(const BlockId& block) = 0;
  // For readers of Find's files and tiers before this one: their hits belong into the shared ratio.
  virtual void CountHit(std::uint64_t bytes) = 0;
  // For who did not wait for the answer whether the cache has the bytes.
  virtual void CountMiss(std::uint64_t bytes) = 0;

  // -- Keeping --

  // Keeps the block and, if `plan` is not empty, pins it for that plan; waits for eviction where
  // Put would refuse. kNoSpace: only pinned blocks are left to evict, or every disk is full.
  // kUnavailable: a directory is out of use, which may pass. kAlreadyExists: something has the
  // block's name that can neither be used nor removed.
  virtual Result<void> Store(const Context& ctx, const BlockId& block,
                             std::span<const std::byte> plain, std::string_view plan) = 0;
  // The same for bytes [offset, offset + data.size()) of a block. Whole 4 KiB pages are kept (and
  // the block's last, shorter one): widen the range to pages before.
  virtual Result<void> StoreRange(const Context& ctx, const BlockId& block, std::uint32_t offset,
                                  std::span<const std::byte> data, std::string_view plan) = 0;
  // Pins what is here of the block already. False if there is nothing.
  virtual Result<bool> Pin(const BlockId& block, std::string_view plan) = 0;
  // Gives up the pages outside `keep` of a block of which only ranges are here, so that ranges of a
  // new order find room; what `keep` shares with them stays. Nothing happens where a plan whose
  // name does not begin with `family` has pinned the block, too. Readers see the pages or a miss.
  virtual Result<void> Trim(const BlockId& block, std::span<const BlockFile::Span> keep,
                            std::string_view family) = 0;

  // -- Clearing --

  struct Removed {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
  };
  // Takes the pins of the plan away; the blocks stay until their room is needed.
  virtual Result<Removed> Unpin(const Context& ctx, std::string_view plan) = 0;
  // Removes a block with all its pins; if `plan` is not empty only that plan's pin, and the block
  // unless others have pinned it.
  virtual Result<Removed> Clear(const Context& ctx, const BlockId& block,
                                std::string_view plan) = 0;
  // Removes every block, range and pin of this volume. If `ctx` ends meanwhile they are gone for
  // readers all the same, and their space is given back by the upkeep or the next ClearAll.
  virtual Result<Removed> ClearAll(const Context& ctx) = 0;
  virtual Result<std::vector<std::string>> Plans() = 0;

  // -- Looking --

  // Costs the same whatever is in the directories, except without upkeep (recount_interval 0): then
  // counters that cannot be trusted are found by walking.
  virtual std::vector<CacheDirectoryStatus> Status() = 0;
  virtual CacheTraffic Traffic() const = 0;
  // Every whole block and every block with ranges (`part`), by walking; for tests and repair.
  using BlockFn = std::function<void(const BlockId& block, bool part, bool pinned)>;
  virtual Result<void> ForEachBlock(const Context& ctx, const BlockFn& fn) = 0;
  // Corrects the counters by walking the directories now.
  virtual Result<void> Recount(const Context& ctx) = 0;
};

}  // namespace paddleop::volume
