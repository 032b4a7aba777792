#include "volume/format/chunk_view.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace paddleop::volume {
namespace {

Slice CutLeft(Slice slice, std::uint32_t n) {
  slice.pos += n;
  slice.len -= n;
  if (slice.id != 0) slice.off += n;
  return slice;
}

Slice Hole(std::uint32_t pos, std::uint32_t len) { return {.pos = pos, .len = len}; }

// Makes room for [begin, end) in a map of disjoint pieces.
void Clear(std::map<std::uint32_t, Slice>& pieces, std::uint32_t begin, std::uint32_t end) {
  auto it = pieces.upper_bound(begin);
  if (it != pieces.begin()) {
    auto before = std::prev(it);
    Slice& piece = before->second;
    const std::uint32_t piece_end = piece.pos + piece.len;
    if (piece_end > begin) {
      if (piece_end > end) {
        const Slice right = CutLeft(piece, end - piece.pos);
        pieces.emplace(right.pos, right);
      }
      if (piece.pos == begin) {
        pieces.erase(before);
      } else {
        piece.len = begin - piece.pos;
      }
    }
  }
  it = pieces.lower_bound(begin);
  while (it != pieces.end() && it->first < end) {
    const Slice piece = it->second;
    it = pieces.erase(it);
    if (piece.pos + piece.len > end) {
      const Slice right = CutLeft(piece, end - piece.pos);
      pieces.emplace(right.pos, right);
      break;
    }
  }
}

void AppendHole(std::vector<Slice>& view, std::uint32_t pos, std::uint32_t len) {
  if (!view.empty() && view.back().id == 0) {
    view.back().len += len;
  } else {
    view.push_back(Hole(pos, len));
  }
}

}  // namespace

std::vector<Slice> BuildChunkView(std::span<const Slice> records, std::uint32_t length) {
  std::vector<Slice> view;
  if (length == 0) return view;
  std::map<std::uint32_t, Slice> pieces;
  for (const Slice& record : records) {
    if (record.len == 0) continue;
    Clear(pieces, record.pos, record.pos + record.len);
    pieces.emplace(record.pos, record);
  }
  std::uint32_t at = 0;
  for (auto& [pos, piece] : pieces) {
    if (pos >= length) break;
    if (pos > at) AppendHole(view, at, pos - at);
    piece.len = std::min(piece.len, length - pos);
    if (piece.id == 0) {
      AppendHole(view, pos, piece.len);
    } else {
      view.push_back(piece);
    }
    at = pos + piece.len;
  }
  if (at < length) AppendHole(view, at, length - at);
  return view;
}

std::vector<ZeroRange> TruncationRanges(std::uint64_t before, std::uint64_t after,
                                        std::span<const std::uint32_t> existing) {
  std::vector<ZeroRange> ranges;
  const std::uint64_t left = std::min(before, after);
  const std::uint64_t right = std::max(before, after);
  if (left == right) return ranges;
  const auto first = static_cast<std::uint32_t>(left / kChunkSize);
  const auto last = static_cast<std::uint32_t>(right / kChunkSize);
  const auto pos = static_cast<std::uint32_t>(left % kChunkSize);
  const std::uint64_t end = first == last ? right % kChunkSize : kChunkSize;
  ranges.push_back({.index = first, .pos = pos, .len = static_cast<std::uint32_t>(end - pos)});
  for (const std::uint32_t index : existing) {
    if (index > first && index < last) {
      ranges.push_back({.index = index, .pos = 0, .len = static_cast<std::uint32_t>(kChunkSize)});
    }
  }
  if (last > first && right % kChunkSize > 0) {
    ranges.push_back(
        {.index = last, .pos = 0, .len = static_cast<std::uint32_t>(right % kChunkSize)});
  }
  return ranges;
}

std::vector<ZeroRange> PunchRanges(std::uint64_t offset, std::uint64_t length) {
  std::vector<ZeroRange> ranges;
  ForEachChunk(offset, length, [&](std::uint32_t index, std::uint32_t pos, std::uint32_t len) {
    ranges.push_back({.index = index, .pos = pos, .len = len});
  });
  return ranges;
}

}  // namespace paddleop::volume
