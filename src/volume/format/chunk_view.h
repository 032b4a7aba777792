// What a reader of a chunk sees: its records laid over one another, and the records that truncation
// and hole punching append.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "volume/format/types.h"

namespace paddleop::volume {

// The visible pieces of a chunk in order of position, without gaps from 0 to `length`. Later
// records win; what no record covers, and what a record with id 0 covers, is a piece with id 0. A
// piece that is cut on its left starts further into its slice.
std::vector<Slice> BuildChunkView(std::span<const Slice> records, std::uint32_t length);

// Zero records for one chunk.
struct ZeroRange {
  std::uint32_t index = 0;
  std::uint32_t pos = 0;
  std::uint32_t len = 0;

  bool operator==(const ZeroRange&) const = default;
};

// Records to append when a file of `before` bytes becomes one of `after` bytes, so that old data
// cannot reappear. The first and last range are appended even to chunks that have no records; full
// ranges in between only to chunks that `existing` (sorted indexes) names.
std::vector<ZeroRange> TruncationRanges(std::uint64_t before, std::uint64_t after,
                                        std::span<const std::uint32_t> existing);

// Records that turn bytes [offset, offset+length) into zeros, one per chunk.
std::vector<ZeroRange> PunchRanges(std::uint64_t offset, std::uint64_t length);

// Splits file bytes [offset, offset+length) at chunk borders: calls fn(index, pos, len).
template <class Fn>
void ForEachChunk(std::uint64_t offset, std::uint64_t length, Fn&& fn) {
  while (length > 0) {
    const std::uint64_t pos = offset % kChunkSize;
    const std::uint64_t len = std::min(length, kChunkSize - pos);
    fn(static_cast<std::uint32_t>(offset / kChunkSize), static_cast<std::uint32_t>(pos),
       static_cast<std::uint32_t>(len));
    offset += len;
    length -= len;
  }
}

}  // namespace paddleop::volume
