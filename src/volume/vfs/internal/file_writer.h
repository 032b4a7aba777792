#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/context.h"
#include "base/log.h"
#include "base/mutex.h"
#include "volume/chunk/block_store.h"
#include "volume/chunk/slice_writer.h"
#include "volume/meta/meta_store.h"

namespace paddleop::volume {

// What was written to one file and is not yet in the volume: slices in the making, in the order in
// which they must be committed, because later records hide earlier ones.
//
// Thread-safe. Writers are taken one after the other; a flush may run beside a write and commits
// what was written before it began.
class FileWriter {
 public:
  FileWriter(MetaStore& meta, BlockStore& blocks, const Logger& log, Ino ino, std::uint64_t length);

  Result<void> Write(const Context& ctx, std::uint64_t offset, std::span<const std::byte> data);
  // At the end of the file as it is when it is this write's turn.
  Result<void> Append(const Context& ctx, std::span<const std::byte> data);
  // Everything written before is stored and committed when it returns. A write that was lost is
  // reported by the first flush after it, once.
  Result<void> Flush(const Context& ctx);

  // An error of a background flush, for the next Flush to report.
  void KeepError(Status error);

  // The end of the file as this client sees it.
  std::uint64_t length() const { return length_.load(); }
  // After a truncation or another client's write.
  void set_length(std::uint64_t length) { length_.store(length); }
  bool Dirty() const;
  // When the oldest pending byte was written; max if there is none.
  std::chrono::steady_clock::time_point OldestWrite() const;
  std::chrono::steady_clock::time_point LastWrite() const;

 private:
  struct Pending;

  Result<std::shared_ptr<Pending>> PendingFor(const Context& ctx, std::uint32_t index,
                                              std::uint32_t pos, std::uint32_t size);
  Result<void> WriteAt(const Context& ctx, std::uint64_t offset, std::span<const std::byte> data)
      REQUIRES(write_mutex_);
  Result<void> WritePiece(const Context& ctx, std::uint32_t index, std::uint32_t pos,
                          std::span<const std::byte> data);
  Result<void> Commit(const Context& ctx, Pending& pending);

  MetaStore& meta_;
  BlockStore& blocks_;
  const Logger& log_;
  const Ino ino_;
  std::atomic<std::uint64_t> length_;

  Mutex write_mutex_;  // one writer at a time; taken before mutex_
  Mutex flush_mutex_;  // one flush at a time; taken before mutex_
  mutable Mutex mutex_;
  CondVar idle_;  // a pending slice is no longer being written to
  std::deque<std::shared_ptr<Pending>> pending_ GUARDED_BY(mutex_);
  std::optional<Status> kept_error_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume
