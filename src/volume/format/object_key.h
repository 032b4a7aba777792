// Names of the objects of a volume, and how slices are cut into blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "volume/format/types.h"

namespace paddleop::volume {

// How a volume lays out its blocks.
struct BlockLayout {
  std::uint32_t block_size = 4U << 20;  // bytes
  bool hash_prefix = false;
};

// Number of blocks of a slice; a slice of no bytes has none.
constexpr std::uint32_t BlockCount(const BlockLayout& layout, std::uint32_t slice_size) {
  return static_cast<std::uint32_t>((std::uint64_t{slice_size} + layout.block_size - 1) /
                                    layout.block_size);
}
// Plain bytes in block `index`; only the last one is shorter than block_size.
constexpr std::uint32_t BlockLength(const BlockLayout& layout, std::uint32_t slice_size,
                                    std::uint32_t index) {
  const std::uint64_t begin = std::uint64_t{index} * layout.block_size;
  if (begin >= slice_size) return 0;
  const std::uint64_t left = slice_size - begin;
  return static_cast<std::uint32_t>(left < layout.block_size ? left : layout.block_size);
}

// One block of a stored slice.
struct BlockId {
  std::uint64_t slice = 0;
  std::uint32_t index = 0;
  std::uint32_t length = 0;  // plain bytes, part of the name

  auto operator<=>(const BlockId&) const = default;
};

// The key below the volume's prefix: "chunks/0/0/1_0_4194304". The object store's key is the
// volume's name, a slash and this.
std::string BlockKey(const BlockLayout& layout, const BlockId& block);
// Reads the last part of such a key, "1_0_4194304", wherever it lies. kInvalid if it is none.
Result<BlockId> ParseBlockKey(std::string_view key);

inline constexpr std::string_view kChunksPrefix = "chunks/";
inline constexpr std::string_view kUuidKey = "juicefs_uuid";

// Which of `shards` buckets holds `key` (with the volume's name in front).
std::uint32_t ShardOf(std::string_view key, std::uint32_t shards);

}  // namespace paddleop::volume
