#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "base/context.h"
#include "base/mutex.h"
#include "volume/chunk/block_store.h"
#include "volume/meta/meta_store.h"
#include "volume/vfs/internal/read_ahead_shares.h"
#include "volume/vfs/internal/slice_views.h"

namespace paddleop::volume {

struct ReadAheadOptions {
  std::uint64_t max_bytes = 32ULL << 20;
};

// Reads one open file through its slices, with read-ahead for sequential readers. One per handle,
// so that two readers of one file do not disturb each other's read-ahead. Thread-safe.
class FileReader {
 public:
  // All outlive this object.
  FileReader(MetaStore& meta, BlockStore& blocks, SliceViews& views, ReadAheadShares& shares,
             Ino ino, ReadAheadOptions options);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // Fills `out` from `offset`; the caller has clipped the range to the file's length. Holes are
  // zeros.
  Result<void> Read(const Context& ctx, std::uint64_t offset, std::span<std::byte> out,
                    std::uint64_t file_length);

 private:
  Result<SliceViews::View> ViewOf(const Context& ctx, std::uint32_t index);
  Result<void> ReadChunk(const Context& ctx, std::uint32_t index, std::uint32_t pos,
                         std::span<std::byte> out);
  // How far ahead to fetch after a read of [offset, end).
  std::uint64_t Window(std::uint64_t offset, std::uint64_t end, std::uint64_t file_length);
  void ReadAhead(const Context& ctx, std::uint64_t from, std::uint64_t bytes,
                 std::uint64_t file_length);

  MetaStore& meta_;
  BlockStore& blocks_;
  SliceViews& views_;
  ReadAheadShares& shares_;
  const Ino ino_;
  const ReadAheadOptions options_;

  Mutex mutex_;
  std::uint64_t next_ GUARDED_BY(mutex_) = 0;        // where a sequential reader goes on
  std::uint64_t sequential_ GUARDED_BY(mutex_) = 0;  // bytes read in sequence so far
  std::uint64_t ahead_ GUARDED_BY(mutex_) = 0;       // end of what was asked for ahead
};

}  // namespace paddleop::volume
