#include "volume/vfs/internal/file_reader.h"

#include <algorithm>
#include <cstring>

#include "base/backoff.h"
#include "volume/format/chunk_view.h"

namespace paddleop::volume {
namespace {

// The pieces of a chunk that hold its bytes from `pos` on.
std::span<const Slice> PiecesFrom(const std::vector<Slice>& view, std::uint32_t pos) {
  const auto behind = std::ranges::upper_bound(view, pos, {}, &Slice::pos);
  return std::span(view).subspan(
      behind == view.begin() ? 0 : static_cast<std::size_t>(behind - view.begin()) - 1);
}

}  // namespace

FileReader::FileReader(MetaStore& meta, BlockStore& blocks, SliceViews& views,
                       ReadAheadShares& shares, Ino ino, ReadAheadOptions options)
    : meta_(meta), blocks_(blocks), views_(views), shares_(shares), ino_(ino), options_(options) {}

FileReader::~FileReader() { shares_.Leave(this); }

Result<SliceViews::View> FileReader::ViewOf(const Context& ctx, std::uint32_t index) {
  if (auto known = views_.Find(index)) return known;
  const std::uint64_t version = views_.Version();
  ASSIGN_OR_RETURN(const auto slices, meta_.ReadSlices(ctx, ino_, index));
  auto view = std::make_shared<const std::vector<Slice>>(BuildChunkView(slices, kChunkSize));
  views_.Put(index, view, version);
  return view;
}

Result<void> FileReader::ReadChunk(const Context& ctx, std::uint32_t index, std::uint32_t pos,
                                   std::span<std::byte> out) {
  // A compaction or a writer that uploads late can make an object of a known record vanish or not
  // be there yet: the records are read again and the object is given some time.
  Backoff backoff({.initial = std::chrono::milliseconds(50),
                   .maximum = std::chrono::seconds(2),
                   .max_attempts = 6});
  for (;;) {
    ASSIGN_OR_RETURN(const auto view, ViewOf(ctx, index));
    Result<void> result;
    for (const Slice& piece : PiecesFrom(*view, pos)) {
      if (piece.pos >= pos + out.size()) break;
      const std::uint64_t begin = std::max<std::uint64_t>(piece.pos, pos);
      const std::uint64_t end =
          std::min<std::uint64_t>(std::uint64_t{piece.pos} + piece.len, pos + out.size());
      if (begin >= end) continue;
      const auto target = out.subspan(begin - pos, end - begin);
      if (piece.id == 0) {
        std::memset(target.data(), 0, target.size());
        continue;
      }
      result = blocks_.ReadSlice(ctx, {piece.id, piece.size},
                                 piece.off + static_cast<std::uint32_t>(begin - piece.pos), target);
      if (!result) break;
    }
    if (result || result.error().code() != Code::kNotFound) return result;
    views_.Clear();
    if (!backoff.Sleep(ctx)) {
      return std::unexpected(
          Status(Code::kCorrupt, "data of the file is missing").Wrap(result.error().message()));
    }
  }
}

std::uint64_t FileReader::Window(std::uint64_t offset, std::uint64_t end,
                                 std::uint64_t file_length) {
  MutexLock lock(mutex_);
  const std::uint64_t block = blocks_.options().layout.block_size;
  // Parallel readers of one stream arrive a little out of order; that is still sequential.
  const bool sequential = offset <= next_ + block && offset + block >= next_;
  sequential_ = sequential ? sequential_ + (end - offset) : 0;
  next_ = sequential ? std::max(next_, end) : end;
  if (!sequential || (offset != 0 && sequential_ < (64U << 10))) {
    ahead_ = end;
    return 0;
  }
  if (end >= file_length) {
    shares_.Leave(this);
    return 0;
  }
  const std::uint64_t share = shares_.ShareOf(this);
  if (share < block) return 0;  // blocks are fetched whole
  const std::uint64_t window =
      std::min({options_.max_bytes, share, std::max(block, sequential_ * 2)});
  const std::uint64_t target = end + window;
  // Ask again only when half of the last window is used up, in big steps.
  if (ahead_ > end && ahead_ - end > window / 2) return 0;
  ahead_ = target;
  return window;
}

void FileReader::ReadAhead(const Context& ctx, std::uint64_t from, std::uint64_t bytes,
                           std::uint64_t file_length) {
  const std::uint64_t end = std::min(from + bytes, file_length);
  if (from >= end) return;
  const std::uint32_t block_size = blocks_.options().layout.block_size;
  ForEachChunk(from, end - from, [&](std::uint32_t index, std::uint32_t pos, std::uint32_t len) {
    const auto view = ViewOf(ctx, index);
    if (!view) return;  // the read itself will meet the error
    for (const Slice& piece : PiecesFrom(**view, pos)) {
      if (piece.pos >= pos + len) break;
      if (piece.id == 0) continue;
      const std::uint32_t begin = std::max(piece.pos, pos);
      const std::uint32_t end_of_piece = std::min(piece.pos + piece.len, pos + len);
      const std::uint32_t first = (piece.off + (begin - piece.pos)) / block_size;
      const std::uint32_t last = (piece.off + (end_of_piece - 1 - piece.pos)) / block_size;
      for (std::uint32_t i = first; i <= last; ++i)
        blocks_.Prefetch(blocks_.BlockOf({piece.id, piece.size}, i));
    }
  });
}

Result<void> FileReader::Read(const Context& ctx, std::uint64_t offset, std::span<std::byte> out,
                              std::uint64_t file_length) {
  const std::uint64_t end = offset + out.size();
  if (const std::uint64_t window = Window(offset, end, file_length); window > 0)
    ReadAhead(ctx, end, window, file_length);
  Result<void> result;
  ForEachChunk(offset, out.size(), [&](std::uint32_t index, std::uint32_t pos, std::uint32_t len) {
    if (!result) return;
    const std::uint64_t at = std::uint64_t{index} * kChunkSize + pos - offset;
    result = ReadChunk(ctx, index, pos, out.subspan(at, len));
  });
  return result;
}

}  // namespace paddleop::volume
