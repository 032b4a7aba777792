// How runtimes of a set, and mounts of a node with its runtime, exchange blocks over HTTP:
//
//   GET  /blocks/<block>?offset=O&size=S&find=1   bytes of a block; with `find` wherever they are,
//                                                 otherwise only from this runtime's cache (404).
//                                                 Header X-Block-From: cache, peer or store.
//   PUT  /blocks/<block>?plan=P                   keep this content and pin it; 507: no room
//   POST /blocks/check?plan=P[&tight=1]           which of these are here; pins those that are
//   POST /blocks/drop                             removes these blocks and their pins
//   POST /blocks/unpin?prefix=X&keep=P            takes away the pins of plans that begin with X,
//                                                 except P
//
// <block> is "SLICE_INDEX_LENGTH", the last part of the object's key.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "volume/format/object_key.h"

namespace paddleop::volume {

inline constexpr std::string_view kBlocksPath = "/blocks/";
inline constexpr std::string_view kCheckPath = "/blocks/check";
inline constexpr std::string_view kDropPath = "/blocks/drop";
inline constexpr std::string_view kUnpinPath = "/blocks/unpin";
inline constexpr std::string_view kBlockFromHeader = "X-Block-From";

// Where the bytes of a read came from.
enum class BlockFrom : std::uint8_t { kCache, kPeer, kStore };
std::string_view BlockFromName(BlockFrom from);
Result<BlockFrom> ParseBlockFrom(std::string_view name);

std::string BlockName(const BlockId& block);

// Bytes [begin, end) of a block.
struct ByteSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool operator==(const ByteSpan&) const = default;
};

// What somebody wants of a block: all of it, some ranges, or only to know who has it.
struct BlockWish {
  BlockId block;
  bool whole = false;
  std::vector<ByteSpan> ranges;  // in order, apart; empty and not whole: nothing is wanted

  bool wants_something() const { return whole || !ranges.empty(); }
  std::uint32_t bytes() const;
  bool operator==(const BlockWish&) const = default;
};

// One answer to a wish.
struct BlockHave {
  bool wish = false;   // all that was wanted is here
  bool whole = false;  // all of the block is here

  bool operator==(const BlockHave&) const = default;
};

std::string EncodeWishes(std::span<const BlockWish> wishes);
// kInvalid: cut off, ranges out of order or out of the block, more than `limit`.
Result<std::vector<BlockWish>> DecodeWishes(std::string_view bytes, std::size_t limit = 65'536);

std::string EncodeHaves(std::span<const BlockHave> haves);
Result<std::vector<BlockHave>> DecodeHaves(std::string_view bytes, std::size_t count);

// The body of a PUT: the wish and then its bytes, in order, from the plain content of the block.
std::string EncodeGift(const BlockWish& wish, std::span<const std::byte> block);
struct BlockGift {
  BlockWish wish;
  std::string_view content;  // into the encoded bytes
};
Result<BlockGift> DecodeGift(std::string_view bytes);

}  // namespace paddleop::volume
