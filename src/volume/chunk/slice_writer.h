#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "volume/chunk/block_store.h"

namespace paddleop::volume {

// A slice in the making: bytes are appended (or rewritten while their block has not left), full
// blocks are uploaded in the background, Finish() uploads the rest.
//
// Used by one thread at a time. Destroying an unfinished writer waits for its uploads; the objects
// they made are the caller's to delete (BlockStore::DeleteSlice with what size() says).
class SliceWriter {
 public:
  SliceWriter(BlockStore& blocks, std::uint64_t id);
  ~SliceWriter();
  SliceWriter(const SliceWriter&) = delete;
  SliceWriter& operator=(const SliceWriter&) = delete;

  // True if [offset, offset + size) can be written: it touches or follows what is there, changes no
  // uploaded block, and ends within the largest slice.
  bool CanWrite(std::uint64_t offset, std::uint64_t size) const;
  // Waits for buffers within the caller's deadline. The number of bytes that it took: fewer than
  // given if nobody has buffers to give up but writers that wait, too. What this one holds should
  // then be sealed, and the rest written to another slice.
  Result<std::size_t> Write(const Context& ctx, std::uint32_t offset,
                            std::span<const std::byte> data);
  // Hands over what is left; nothing can be written afterwards. If the caller's time ends first, it
  // can be called again.
  Result<void> Seal(const Context& ctx);
  // Seals, and waits until all blocks are stored: the slice can be committed. Blocks that the store
  // did not take but may take later keep their buffers, and the next call tries them again. Any
  // other failure stays.
  Result<void> Finish(const Context& ctx);

  // The same for who does not wait: nothing may be uploading. Begins to try again what had failed
  // before it tells of it.
  Result<void> FinishUploaded(const Context& ctx);
  bool Uploading() const;

  // Whether what Finish() could not store may be stored by a later call: the store comes back, or
  // gets other keys, or only the caller's time was up.
  static bool MayPassLater(const Status& status) {
    return status.code() == Code::kUnavailable || status.code() == Code::kDeadline ||
           status.code() == Code::kPermission || status.code() == Code::kCancelled;
  }

  std::uint64_t id() const { return id_; }
  std::uint32_t size() const { return size_; }

 private:
  struct Block;
  struct FailedBlock;
  struct Uploads;

  // Whether buffers of this slice are in use, be they still open, under way or to be tried again.
  bool HoldsBuffers() const;
  // False if there is no room and waiting for it would not end.
  Result<bool> MakeRoom(const Context& ctx, Block& block, std::size_t size);
  Result<void> Upload(const Context& ctx, std::uint32_t index);
  // Queues one block; it is the caller's again if that fails.
  Result<void> Submit(const Context& ctx, const std::shared_ptr<Block>& block, const BlockId& id);
  Result<void> UploadFailedAgain(const Context& ctx);

  BlockStore& blocks_;
  const std::uint64_t id_;
  std::uint32_t size_ = 0;
  std::uint32_t uploaded_ = 0;  // blocks handed over, always a prefix
  bool sealed_ = false;
  std::deque<std::shared_ptr<Block>> open_;  // blocks uploaded_, uploaded_ + 1, ...
  std::shared_ptr<Uploads> uploads_;
};

}  // namespace paddleop::volume
