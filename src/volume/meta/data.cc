#include "volume/format/chunk_view.h"
#include "volume/meta/internal/store.h"

namespace paddleop::volume {
namespace {

constexpr std::uint64_t kSliceBatch = 4096;
constexpr std::uint32_t kChunksPerCut = 1000;

Result<void> CheckFile(Ino ino, const std::optional<Attr>& attr) {
  if (!attr) return NoInode(ino);
  if (attr->type == FileType::kDirectory) {
    return Fail(Code::kIsDirectory, "inode {} is a directory", ToInt(ino));
  }
  if (attr->type != FileType::kFile) {
    return Fail(Code::kInvalid, "inode {} is no regular file", ToInt(ino));
  }
  return {};
}

Result<void> CheckChangeable(const Caller& caller, const Attr& attr) {
  if ((attr.flags & (kFlagImmutable | kFlagAppend)) != 0) {
    return Fail(Code::kPermission, "the file is immutable or append-only");
  }
  return CheckAccess(caller, attr, kMayWrite);
}

void AppendZeros(MetaTxn& txn, Ino ino, std::span<const ZeroRange> ranges) {
  for (const ZeroRange& range : ranges) {
    if (range.len == 0) continue;
    const Slice zeros{.pos = range.pos, .id = 0, .size = 0, .off = 0, .len = range.len};
    txn.AppendSlices(ino, range.index, std::span(&zeros, 1));
  }
}

// The records that make a hole of bytes [offset, end). A chunk without a list reads as zeros as it
// is, and a sparse file may have more of those than anybody could write to: wholly covered ones are
// left out.
Result<std::vector<ZeroRange>> HoleRanges(MetaTxn& txn, Ino ino, std::uint64_t offset,
                                          std::uint64_t end) {
  const std::uint64_t first = (offset + kChunkSize - 1) / kChunkSize;
  const std::uint64_t behind = end / kChunkSize;
  if (first >= behind) return PunchRanges(offset, end - offset);
  std::vector<std::uint32_t> existing;
  RETURN_IF_ERROR(txn.Read(ReadSet().ChunkIndexes(
      ino, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(behind - 1), &existing)));
  std::vector<ZeroRange> ranges = PunchRanges(offset, first * kChunkSize - offset);
  for (const std::uint32_t index : existing) {
    ranges.push_back({.index = index, .pos = 0, .len = static_cast<std::uint32_t>(kChunkSize)});
  }
  const auto tail = PunchRanges(behind * kChunkSize, end - behind * kChunkSize);
  ranges.insert(ranges.end(), tail.begin(), tail.end());
  return ranges;
}

}  // namespace

Result<std::vector<Slice>> EngineMetaStore::ReadSlices(const Context& ctx, Ino ino,
                                                       std::uint32_t index) {
  std::optional<std::vector<Slice>> slices;
  RETURN_IF_ERROR(engine_->ReadOnce(ctx, ReadSet().Chunk(ino, index, &slices)));
  if (slices) return *std::move(slices);
  // No list: either all zeros, or no file any more.
  ASSIGN_OR_RETURN([[maybe_unused]] const Attr attr, GetAttr(ctx, ino));
  return std::vector<Slice>();
}

Result<std::uint64_t> EngineMetaStore::NewSliceId(const Context& ctx) {
  RETURN_IF_ERROR(CheckWritable());
  MutexLock lock(ids_mutex_);
  if (next_slice_ == end_slice_) {
    ASSIGN_OR_RETURN(next_slice_, engine_->AllocateSlices(ctx, kSliceBatch));
    end_slice_ = next_slice_ + kSliceBatch;
  }
  return next_slice_++;
}

Result<Attr> EngineMetaStore::WriteSlice(const Context& ctx, Ino ino, std::uint32_t index,
                                         const Slice& slice, Timestamp mtime) {
  if (slice.id == 0 || slice.len == 0 || slice.size > kMaxSliceSize ||
      std::uint64_t{slice.off} + slice.len > slice.size ||
      std::uint64_t{slice.pos} + slice.len > kChunkSize) {
    return Fail(Code::kInvalid, "slice {}: [{}, +{}) of {} bytes at {} of a chunk", slice.id,
                slice.off, slice.len, slice.size, slice.pos);
  }
  const std::uint64_t end = std::uint64_t{index} * kChunkSize + slice.pos + slice.len;
  if (end > kMaxFileSize)
    return Fail(Code::kInvalid, "file of {} bytes: at most {}", end, kMaxFileSize);
  Attr result;
  RETURN_IF_ERROR(Run(ctx, [&](MetaTxn& txn, Changes& changes) -> Result<void> {
    std::optional<Attr> attr;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(ino, &attr)));
    RETURN_IF_ERROR(CheckFile(ino, attr));
    const DirUsage before = UsageOf(*attr);
    attr->length = std::max(attr->length, end);
    DirUsage delta = UsageOf(*attr);
    delta += -before;
    RETURN_IF_ERROR(AccountFile(ctx, txn, changes, ino, *attr, delta));
    changes.usage.space = delta.space;
    const Timestamp now = Now();
    attr->mtime = MtimeAfterWrite(attr->mtime, mtime, now);
    attr->ctime = now;
    // The reference first: a reader of the count must never see a record without it.
    txn.NewSlice({.id = slice.id, .size = slice.size}, 1);
    txn.AppendSlices(ino, index, std::span(&slice, 1));
    txn.UpdateNode(ino, *attr);
    result = *attr;
    return {};
  }));
  return result;
}

// What lies wholly behind the new end is not only hidden: when the file is deleted, its length is
// all that tells which chunks it has. A chunk without a list reads as zeros, for the official
// client, too.
Result<std::uint64_t> EngineMetaStore::CutChunks(MetaTxn& txn, Ino ino, std::uint64_t before,
                                                 std::uint64_t length) {
  const auto first = static_cast<std::uint32_t>((length + kChunkSize - 1) / kChunkSize);
  const auto last = static_cast<std::uint32_t>((before - 1) / kChunkSize);
  if (first > last) return length;
  std::vector<std::uint32_t> indexes;
  RETURN_IF_ERROR(txn.Read(ReadSet().ChunkIndexes(ino, first, last, &indexes)));
  if (indexes.size() > kChunksPerCut) {
    indexes.erase(indexes.begin(), indexes.end() - kChunksPerCut);
    length = indexes.front() * kChunkSize;
  }
  std::vector<std::optional<std::vector<Slice>>> records(indexes.size());
  ReadSet chunks;
  for (std::size_t i = 0; i < indexes.size(); ++i) chunks.Chunk(ino, indexes[i], &records[i]);
  if (!chunks.empty()) RETURN_IF_ERROR(txn.Read(chunks));
  for (std::size_t i = 0; i < indexes.size(); ++i) {
    if (!records[i]) continue;
    txn.DeleteChunk(ino, indexes[i]);
    for (const Slice& slice : *records[i]) {
      if (slice.id != 0) txn.ReleaseSlice({.id = slice.id, .size = slice.size});
    }
  }
  return length;
}

Result<Attr> EngineMetaStore::ChangeLength(const Context& ctx, MetaTxn& txn, Changes& changes,
                                           Ino ino, Attr attr, std::uint64_t length,
                                           const Timestamp& now) {
  const std::uint64_t before = attr.length;
  const DirUsage old_usage = UsageOf(attr);
  std::vector<ZeroRange> zeros;
  if (length < before) {
    ASSIGN_OR_RETURN(length, CutChunks(txn, ino, before, length));
    // In the chunk that holds the new end, as far as that held the old one.
    if (length % kChunkSize != 0) {
      const std::uint64_t end_of_chunk = (length / kChunkSize + 1) * kChunkSize;
      zeros = TruncationRanges(std::min(before, end_of_chunk), length, {});
    }
  } else if (length > before) {
    std::vector<std::uint32_t> existing;
    const auto first = static_cast<std::uint32_t>(before / kChunkSize);
    const auto last = static_cast<std::uint32_t>(length / kChunkSize);
    if (last > first + 1) {
      RETURN_IF_ERROR(txn.Read(ReadSet().ChunkIndexes(ino, first + 1, last - 1, &existing)));
    }
    zeros = TruncationRanges(before, length, existing);
  }
  attr.length = length;
  DirUsage delta = UsageOf(attr);
  delta += -old_usage;
  RETURN_IF_ERROR(AccountFile(ctx, txn, changes, ino, attr, delta));
  changes.usage.space += delta.space;
  AppendZeros(txn, ino, zeros);
  attr.mtime = attr.ctime = now;
  txn.UpdateNode(ino, attr);
  return attr;
}

Result<Attr> EngineMetaStore::Truncate(const Context& ctx, const Caller& caller, Ino ino,
                                       std::uint64_t length) {
  if (length > kMaxFileSize) {
    return Fail(Code::kInvalid, "file of {} bytes: at most {}", length, kMaxFileSize);
  }
  Attr result;
  const auto body = [&](MetaTxn& txn, Changes& changes) -> Result<void> {
    std::optional<Attr> attr;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(ino, &attr)));
    RETURN_IF_ERROR(CheckFile(ino, attr));
    if (IsNameless(ino, *attr)) return NoInode(ino);
    if (IsThrownAway(ino, *attr)) return Fail(Code::kPermission, "the file is in the trash");
    RETURN_IF_ERROR(CheckChangeable(caller, *attr));
    // Also to the length it has: then only the times change.
    ASSIGN_OR_RETURN(result, ChangeLength(ctx, txn, changes, ino, *attr, length, Now()));
    return {};
  };
  // A very large file is cut in steps.
  do {
    RETURN_IF_ERROR(Run(ctx, body));
  } while (result.length > length);
  return result;
}

Result<Attr> EngineMetaStore::Fallocate(const Context& ctx, const Caller& caller, Ino ino,
                                        FallocateMode mode, std::uint64_t offset,
                                        std::uint64_t length) {
  if (length == 0) return Fail(Code::kInvalid, "an empty range");
  if (offset > kMaxFileSize || length > kMaxFileSize - offset) {
    return Fail(Code::kInvalid, "range ends beyond the largest file of {} bytes", kMaxFileSize);
  }
  const bool zero = mode == FallocateMode::kPunchHole || mode == FallocateMode::kZeroRange ||
                    mode == FallocateMode::kZeroRangeKeepSize;
  const bool grow = mode == FallocateMode::kExtend || mode == FallocateMode::kZeroRange;
  Attr result;
  RETURN_IF_ERROR(Run(ctx, [&](MetaTxn& txn, Changes& changes) -> Result<void> {
    const Timestamp now = Now();
    std::optional<Attr> attr;
    RETURN_IF_ERROR(txn.Read(ReadSet().Attr(ino, &attr)));
    RETURN_IF_ERROR(CheckFile(ino, attr));
    if ((attr->flags & kFlagImmutable) != 0)
      return Fail(Code::kPermission, "the file is immutable");
    if (mode != FallocateMode::kExtend && (attr->flags & kFlagAppend) != 0) {
      return Fail(Code::kPermission, "the file is append-only");
    }
    if (IsThrownAway(ino, *attr)) return Fail(Code::kPermission, "the file is in the trash");
    RETURN_IF_ERROR(CheckAccess(caller, *attr, kMayWrite));
    result = *attr;
    const std::uint64_t end = offset + length;
    const std::uint64_t old_length = attr->length;
    std::vector<ZeroRange> hole;
    if (zero && offset < old_length) {
      ASSIGN_OR_RETURN(hole, HoleRanges(txn, ino, offset, std::min(end, old_length)));
    }
    if (grow && end > old_length) {
      ASSIGN_OR_RETURN(result, ChangeLength(ctx, txn, changes, ino, *attr, end, now));
    } else if (zero && offset < old_length) {
      result.mtime = result.ctime = now;
      txn.UpdateNode(ino, result);
    }
    AppendZeros(txn, ino, hole);
    return {};
  }));
  return result;
}

}  // namespace paddleop::volume
