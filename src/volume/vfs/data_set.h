#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/context.h"
#include "base/metrics.h"
#include "volume/cache/disk_cache.h"
#include "volume/chunk/block_store.h"
#include "volume/meta/meta_store.h"
#include "volume/meta/tree.h"

namespace paddleop::volume {

struct DataSetOptions {
  Ino root = kRootIno;
  std::size_t fetch_threads = 12;
  // Blocks just fetched or read that stay in memory, so that what is read ahead is not read from
  // the disk once more. Part of the block store's buffers, most of which stay free.
  std::uint64_t recent_bytes = 32ULL << 20;
  std::uint64_t max_readahead = 32ULL << 20;  // ahead of sequential readers of big files
  // How long a read is tried, retries included.
  std::chrono::milliseconds io_timeout{60'000};
  // After that a read that a cache directory does not answer goes to the store.
  std::chrono::milliseconds disk_patience{5'000};
  int io_retries = 0;    // of a block that the store does not give; 0: as long as io_timeout lasts
  bool prefetch = true;  // packs that follow the one that was just fetched
  // How long a refresh waits for requests that still see the old state.
  std::chrono::milliseconds refresh_grace{10'000};
};

// Told of a directory whose names are as before but some of which stand for what has changed. Who
// looks up or lists names in the kernel holds a lock on their directory until it has taken in the
// answer, and who tells the kernel to forget a name waits for that lock: any name will do, and one
// that nobody has costs the kernel nothing that it knows. (With the name of a directory it would
// forget everything below, with the pages of all files.)
inline constexpr std::string_view kNobodysName = ".samplefs.nobody";

// Told what has changed between two states of a data set: names first, then inodes.
class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  // The name stands for something else now, or for nothing, or for something at last; or it is
  // kNobodysName. Returns when those who looked up or listed names of this directory before have
  // taken in what they were told.
  virtual void OnEntryChanged(Ino parent, std::string_view name) = 0;
  // Attributes, data or (of a directory) the list of names.
  virtual void OnInodeChanged(Ino ino) = 0;
};

struct RefreshDone {
  bool changed = false;
  std::uint64_t entries = 0;  // names that changed
  std::uint64_t inodes = 0;   // files and directories that changed
  std::uint64_t nodes = 0;    // inodes in the new state
};

struct DataSetStatus {
  std::uint64_t inodes = 0;
  std::uint64_t tree_bytes = 0;
  std::uint64_t prefetched = 0;
  std::uint64_t prefetch_useful = 0;
  std::uint64_t prefetch_wasted = 0;
  std::uint64_t prefetch_window = 0;
  std::uint64_t refreshes = 0;
  std::chrono::system_clock::time_point loaded;
};

// A read-only view of a volume as of one moment, made for reading everything many times: the whole
// tree is in memory, so names and attributes cost no round trip, and reads are answered by callback
// so that no thread of the caller waits for the network or for a disk.
//
// Thread-safe.
class DataSet {
 public:
  // The state at one moment. Whoever answers from it holds it until the answer is out.
  using View = std::shared_ptr<const Tree>;

  // Loads the tree. `disk` may be null; all outlive this object.
  static Result<std::unique_ptr<DataSet>> Open(const Context& ctx, MetaStore& meta,
                                               BlockStore& blocks, DiskCache* disk,
                                               MetricsRegistry& metrics,
                                               const DataSetOptions& options);
  ~DataSet();

  View view() const;

  // The bytes, valid during the call only: fewer than asked for at the end of the file.
  using ReadDone = std::move_only_function<void(Result<std::span<const std::byte>>)>;
  // Called exactly once, possibly before Read returns. kExpired if the file, or its data, is gone
  // from the view and the volume; kUnavailable and kDeadline if the store did not answer in time.
  void Read(Ino ino, std::uint64_t offset, std::size_t size, ReadDone done);

  // At once if it is in the view. Otherwise the volume is asked: somebody may have a file open that
  // was removed or replaced since. kExpired if that has nothing, either.
  using AttrDone = std::move_only_function<void(Result<Attr>)>;
  void GetAttr(Ino ino, AttrDone done);

  // The same for where a symbolic link leads.
  using TextDone = std::move_only_function<void(Result<std::string>)>;
  void ReadLink(Ino ino, TextDone done);
  // As of when the tree was loaded: listing programs ask for it all the time.
  StatFs GetStatFs() const;

  // Loads the tree again, takes it into use, and tells what has changed once nobody sees the old
  // state any more. One at a time; may take as long as a load.
  Result<RefreshDone> Refresh(const Context& ctx, ChangeListener& listener);
  // True if the volume says that an import or a removal has finished since the tree was loaded, its
  // root has changed, or it holds more or less than then. A file rewritten in place to the same
  // size, far from the root, is not noticed.
  Result<bool> IsStale(const Context& ctx);

  DataSetStatus Status() const;

  // Answers everything that waits (kCancelled) and ends the threads.
  void Stop();

 private:
  class State;
  explicit DataSet(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The changes from one tree to another.
RefreshDone CompareTrees(const Tree& before, const Tree& after, ChangeListener& listener);

}  // namespace paddleop::volume
