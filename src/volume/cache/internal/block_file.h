// The open file of a whole block, and what is remembered of verified pieces.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/posix.h"
#include "volume/cache/disk_cache.h"
#include "volume/cache/internal/operations.h"

namespace paddleop::volume::cache {

// Which bytes of a block's file this process has verified, in steps of 8 KiB. They only ever become
// more.
class VerifiedPieces {
 public:
  explicit VerifiedPieces(std::uint32_t length);
  // Of [begin, end).
  bool Test(std::uint64_t begin, std::uint64_t end) const;
  // `begin` and `end` are multiples of 8 KiB, or the block's end.
  void Set(std::uint64_t begin, std::uint64_t end);

 private:
  std::vector<std::atomic<std::uint64_t>> words_;
};

// Verified pieces outlive the open file, so that closing one for another does not cost a second
// check. Bounded: when a shard is full it starts afresh. Thread-safe.
class VerifiedTable {
 public:
  // The pieces of the file with this inode and time of writing; others of that name are forgotten.
  std::shared_ptr<VerifiedPieces> Find(const BlockId& block, std::uint64_t inode,
                                       std::int64_t written);
  void Forget(const BlockId& block);

 private:
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kPerShard = 8192;
  struct Entry {
    std::uint64_t inode = 0;
    std::int64_t written = 0;
    std::shared_ptr<VerifiedPieces> pieces;
  };
  struct Shard {
    Mutex mutex;
    std::map<BlockId, Entry> entries GUARDED_BY(mutex);
  };
  Shard& ShardOf(const BlockId& block) { return shards_[(block.slice + block.index) % kShards]; }

  Shard shards_[kShards];
};

class OpenBlock final : public BlockFile {
 public:
  // The directory that the file is of; it outlives the file.
  struct Home {
    const std::atomic<bool>& usable;
    const std::atomic<bool>& answers;
    Operations& operations;
    // Called once, when a read finds damage or fails (with errno).
    std::function<void(const BlockId& block, const std::string& why)> on_corrupt;
    std::function<void(int error)> on_error;
  };

  // `stored` is the file's size; it has been checked to hold the block and, if there are any, all
  // of its checksums. `fine` are those of every 8 KiB, or none.
  OpenBlock(UniqueFd fd, bool direct, const BlockId& block, std::uint64_t stored,
            std::vector<std::uint32_t> fine, ChecksumLevel level,
            std::shared_ptr<VerifiedPieces> verified, Home home);

  int fd() const override { return fd_.get(); }
  bool direct() const override { return direct_; }
  const void* directory() const override { return &home_.operations; }
  bool in_memory() const override { return in_memory_; }
  std::uint32_t length() const override { return block_.length; }
  Span ToRead(std::uint32_t offset, std::uint32_t size) const override;
  bool Verify(std::uint32_t offset, std::span<const std::byte> bytes) override;
  bool VerifiesAtOnce(const Span& span) const override;
  bool Prepare(const Span& span) override { return VerifiesAtOnce(span) || LoadChecksums(); }
  bool Read(std::uint32_t offset, std::span<std::byte> out) override;

  // False after damage or an error, and while its directory is out of use: not to be given to
  // anyone.
  bool good() const {
    return good_.load(std::memory_order_relaxed) && home_.usable.load(std::memory_order_relaxed);
  }
  // False: whoever read of it would wait.
  bool answers() const { return home_.answers.load(std::memory_order_relaxed); }
  // For those who read by themselves.
  Operations::Stamp BeginRead() { return home_.operations.Begin("a read"); }
  bool IsOf(const Operations& operations) const { return &home_.operations == &operations; }
  // True if the file has no name any more.
  bool Unlinked() const;
  // Tells the file system now and then that the file was read, which reading does not.
  void NoteReads() const;

 private:
  // What is wrong with the bytes; empty if nothing is. Nullopt: they could not be checked.
  std::optional<std::string> WrongIn(std::uint32_t offset,
                                     std::span<const std::span<const std::byte>> parts);
  bool Accept(std::uint32_t offset, std::span<const std::span<const std::byte>> parts);
  bool LoadChecksums();
  // True if bytes [offset, end) are checked in pieces of 32 KiB.
  bool ChecksCoarsely(std::uint64_t offset, std::uint64_t end) const;
  bool UsesFine() const { return !fine_.empty() && fine_good_.load(std::memory_order_relaxed); }
  bool ReadSpan(std::uint32_t offset, std::span<std::byte> out);
  bool ReadPlain(const Span& span, std::uint32_t offset, std::span<std::byte> out);
  bool ReadAligned(const Span& span, std::uint32_t offset, std::span<std::byte> out);
  bool ReadFailed(ssize_t got);
  bool Corrupt(const std::string& why);

  const UniqueFd fd_;
  const bool direct_;
  const bool in_memory_;
  const BlockId block_;
  const bool has_checksums_;
  const std::vector<std::uint32_t> fine_;
  const ChecksumLevel level_;
  const std::shared_ptr<VerifiedPieces> verified_;
  const Home home_;
  std::atomic<bool> good_ = true;
  mutable std::atomic<bool> read_ = false;  // since the last note
  mutable std::atomic<Operations::Steady::time_point> noted_ = Operations::Steady::now();
  // False: one of `fine_` differed; from then on those in the file decide.
  std::atomic<bool> fine_good_ = true;
  Mutex mutex_;
  std::vector<std::uint32_t> checksums_ GUARDED_BY(mutex_);  // read when first needed, then kept
  std::atomic<bool> loaded_ = false;                         // they are there
};

// Memory aligned for O_DIRECT.
class AlignedBuffer {
 public:
  std::byte* Get(std::size_t size);

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace paddleop::volume::cache
