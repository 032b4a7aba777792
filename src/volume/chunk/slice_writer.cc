#include "volume/chunk/slice_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace paddleop::volume {

struct SliceWriter::Block {
  // Memory is taken in steps, so that many files with a few bytes each do not claim a block each;
  // what has grown beyond a few will fill its block, and so will what follows a full one.
  std::size_t CapacityFor(std::size_t size, std::size_t limit, bool will_fill) const {
    const std::size_t capacity = buffer.bytes().size();
    if (size <= capacity) return capacity;
    if (will_fill) return limit;
    const std::size_t wanted = std::max(size, capacity * 2);
    return wanted > kFew ? limit : std::min(limit, (wanted + kStep - 1) / kStep * kStep);
  }
  void Grow(BlockBuffer larger) {
    if (used > 0) std::memcpy(larger.bytes().data(), buffer.bytes().data(), used);
    buffer = std::move(larger);
  }
  std::span<const std::byte> content() const { return buffer.bytes().first(used); }

  static constexpr std::size_t kStep = 64 << 10;
  static constexpr std::size_t kFew = 1 << 20;
  BufferBudget::Lease lease;
  BlockBuffer buffer;
  std::size_t used = 0;
};

struct SliceWriter::FailedBlock {
  std::shared_ptr<Block> block;
  BlockId id;
  Status error;
};

// What the background uploads report; outlives the writer if it must.
struct SliceWriter::Uploads {
  void Done(const std::shared_ptr<Block>& block, const BlockId& id, Result<void> written);
  // Of all uploads that have ended.
  Result<void> Outcome() const REQUIRES(mutex);

  Mutex mutex;
  CondVar changed;
  std::size_t running GUARDED_BY(mutex) = 0;
  Result<void> result GUARDED_BY(mutex);              // of what failed for good
  std::vector<FailedBlock> failed GUARDED_BY(mutex);  // to be tried again
};

void SliceWriter::Uploads::Done(const std::shared_ptr<Block>& block, const BlockId& id,
                                Result<void> written) {
  const bool again = !written && MayPassLater(written.error());
  if (again) {
    block->lease.SetLeaving(false);
  } else {
    block->lease.Release();
  }
  MutexLock lock(mutex);
  if (again) {
    failed.push_back({.block = block, .id = id, .error = std::move(written).error()});
  } else if (result) {
    result = std::move(written);
  }
  --running;
  changed.notify_all();
}

// What stays hides what may pass.
Result<void> SliceWriter::Uploads::Outcome() const {
  if (!result || failed.empty()) return result;
  return std::unexpected(failed.front().error);
}

SliceWriter::SliceWriter(BlockStore& blocks, std::uint64_t id)
    : blocks_(blocks), id_(id), uploads_(std::make_shared<Uploads>()) {}

// Uploads that are still under way need nothing of the writer.
SliceWriter::~SliceWriter() = default;

bool SliceWriter::CanWrite(std::uint64_t offset, std::uint64_t size) const {
  const std::uint64_t first_open = std::uint64_t{uploaded_} * blocks_.options().layout.block_size;
  return !sealed_ && offset >= first_open && offset <= size_ && offset + size <= kMaxSliceSize;
}

bool SliceWriter::HoldsBuffers() const {
  if (std::ranges::any_of(open_, [](const auto& open) { return !open->buffer.bytes().empty(); }))
    return true;
  // Who waits for a buffer while these fail would keep them from being tried again.
  MutexLock lock(uploads_->mutex);
  return uploads_->running > 0 || !uploads_->failed.empty();
}

Result<bool> SliceWriter::MakeRoom(const Context& ctx, Block& block, std::size_t size) {
  const std::size_t has = block.buffer.bytes().size();
  const std::size_t wanted =
      block.CapacityFor(size, blocks_.options().layout.block_size, uploaded_ > 0);
  if (wanted > has) {
    if (HoldsBuffers()) {
      ASSIGN_OR_RETURN(const bool got,
                       blocks_.budget().ExtendUnlessStuck(ctx, block.lease, wanted - has));
      if (!got) return false;
    } else {
      RETURN_IF_ERROR(blocks_.budget().Extend(ctx, block.lease, wanted - has));
    }
    block.Grow(blocks_.buffers().Take(wanted));
  }
  block.used = std::max(block.used, size);
  return true;
}

Result<std::size_t> SliceWriter::Write(const Context& ctx, std::uint32_t offset,
                                       std::span<const std::byte> data) {
  const std::size_t given = data.size();
  CHECK(CanWrite(offset, data.size()), "write of {} at {} into slice of {}", data.size(), offset,
        size_);
  const std::uint32_t block_size = blocks_.options().layout.block_size;
  while (!data.empty()) {
    const std::uint32_t index = offset / block_size, inside = offset % block_size;
    if (index - uploaded_ >= open_.size()) open_.push_back(std::make_shared<Block>());
    Block& block = *open_[index - uploaded_];
    const std::size_t count = std::min<std::size_t>(data.size(), block_size - inside);
    ASSIGN_OR_RETURN(const bool room, MakeRoom(ctx, block, inside + count));
    if (!room) return given - data.size();
    std::memcpy(block.buffer.bytes().data() + inside, data.data(), count);
    data = data.subspan(count);
    offset += static_cast<std::uint32_t>(count);
    size_ = std::max(size_, offset);
    // Once the next byte lies beyond the first open block, that block is complete.
    while (!open_.empty() && open_.front()->used == block_size &&
           offset >= (uploaded_ + 1) * block_size) {
      RETURN_IF_ERROR(Upload(ctx, uploaded_));
    }
  }
  return given;
}

Result<void> SliceWriter::Upload(const Context& ctx, std::uint32_t index) {
  CHECK(index == uploaded_ && !open_.empty(), "upload of block {}", index);
  const std::shared_ptr<Block> block = open_.front();
  const BlockId id{.slice = id_, .index = index, .length = static_cast<std::uint32_t>(block->used)};
  // If it fails the block stays: the caller's time is up, perhaps not that of who comes next.
  RETURN_IF_ERROR(Submit(ctx, block, id));
  open_.pop_front();
  ++uploaded_;
  return {};
}

Result<void> SliceWriter::Submit(const Context& ctx, const std::shared_ptr<Block>& block,
                                 const BlockId& id) {
  {
    MutexLock lock(uploads_->mutex);
    ++uploads_->running;
  }
  auto upload = [&store = blocks_, uploads = uploads_, block, id] {
    uploads->Done(block, id, store.WriteBlock(Context::Background(), id, block->content()));
  };
  block->lease.SetLeaving(true);
  auto queued = blocks_.uploads().Submit(ctx, upload);
  if (!queued) {
    block->lease.SetLeaving(false);
    MutexLock lock(uploads_->mutex);
    --uploads_->running;
  }
  return queued;
}

Result<void> SliceWriter::UploadFailedAgain(const Context& ctx) {
  std::vector<FailedBlock> again;
  {
    MutexLock lock(uploads_->mutex);
    if (uploads_->failed.empty()) return {};
    again.swap(uploads_->failed);
  }
  for (std::size_t i = 0; i < again.size(); ++i) {
    auto queued = Submit(ctx, again[i].block, again[i].id);
    if (queued) continue;
    MutexLock lock(uploads_->mutex);
    uploads_->failed.insert(uploads_->failed.end(), again.begin() + static_cast<std::ptrdiff_t>(i),
                            again.end());
    return queued;
  }
  return {};
}

Result<void> SliceWriter::Seal(const Context& ctx) {
  sealed_ = true;
  // A write that got no buffer may have left an empty block at the end.
  while (!open_.empty() && open_.front()->used > 0) RETURN_IF_ERROR(Upload(ctx, uploaded_));
  return {};
}

Result<void> SliceWriter::FinishUploaded(const Context& ctx) {
  Result<void> result;
  {
    MutexLock lock(uploads_->mutex);
    CHECK(sealed_ && uploads_->running == 0, "slice {} is not uploaded", id_);
    result = uploads_->Outcome();
  }
  RETURN_IF_ERROR(UploadFailedAgain(ctx));
  return result;
}

bool SliceWriter::Uploading() const {
  MutexLock lock(uploads_->mutex);
  return uploads_->running > 0;
}

Result<void> SliceWriter::Finish(const Context& ctx) {
  RETURN_IF_ERROR(UploadFailedAgain(ctx));
  RETURN_IF_ERROR(Seal(ctx));
  MutexLock lock(uploads_->mutex);
  auto done = [&]() REQUIRES(uploads_->mutex) { return uploads_->running == 0; };
  if (ctx.has_deadline()) {
    uploads_->changed.wait_until(lock, ctx.stop(), ctx.deadline(), done);
  } else {
    uploads_->changed.wait(lock, ctx.stop(), done);
  }
  if (uploads_->running > 0) {
    RETURN_IF_ERROR(ctx.Check());
    return Fail(Code::kDeadline, "slice {} was not stored in time", id_);
  }
  return uploads_->Outcome();
}

}  // namespace paddleop::volume
