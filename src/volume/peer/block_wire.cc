#include "volume/peer/block_wire.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace paddleop::volume {
namespace {

constexpr std::uint16_t kWhole = 0xffff;

void Append(ByteWriter& out, const BlockWish& wish) {
  out.U64(wish.block.slice);
  out.U32(wish.block.index);
  out.U32(wish.block.length);
  out.U16(wish.whole ? kWhole : static_cast<std::uint16_t>(wish.ranges.size()));
  if (wish.whole) return;
  for (const ByteSpan& range : wish.ranges) {
    out.U32(range.begin);
    out.U32(range.end);
  }
}

Result<BlockWish> Take(ByteReader& in) {
  BlockWish wish;
  wish.block.slice = in.U64();
  wish.block.index = in.U32();
  wish.block.length = in.U32();
  const std::uint16_t ranges = in.U16();
  wish.whole = ranges == kWhole;
  std::uint32_t end = 0;
  for (std::uint16_t i = 0; !wish.whole && i < ranges && in.ok(); ++i) {
    const ByteSpan range{.begin = in.U32(), .end = in.U32()};
    if (range.begin < end || range.end <= range.begin || range.end > wish.block.length) {
      return Fail(Code::kInvalid, "block {}: range {}-{} is out of order or out of the block",
                  BlockName(wish.block), range.begin, range.end);
    }
    end = range.end;
    wish.ranges.push_back(range);
  }
  if (!in.ok()) return Fail(Code::kInvalid, "the list of blocks is cut off");
  return wish;
}

}  // namespace

std::string_view BlockFromName(BlockFrom from) {
  switch (from) {
    case BlockFrom::kCache:
      return "cache";
    case BlockFrom::kPeer:
      return "peer";
    case BlockFrom::kStore:
      return "store";
  }
  return "?";
}

Result<BlockFrom> ParseBlockFrom(std::string_view name) {
  for (const BlockFrom from : {BlockFrom::kCache, BlockFrom::kPeer, BlockFrom::kStore}) {
    if (BlockFromName(from) == name) return from;
  }
  return Fail(Code::kInvalid, "blocks do not come from \"{}\"", name);
}

std::string BlockName(const BlockId& block) {
  return fmt::format("{}_{}_{}", block.slice, block.index, block.length);
}

std::uint32_t BlockWish::bytes() const {
  if (whole) return block.length;
  std::uint32_t sum = 0;
  for (const ByteSpan& range : ranges) sum += range.end - range.begin;
  return sum;
}

std::string EncodeWishes(std::span<const BlockWish> wishes) {
  std::string out;
  ByteWriter writer(out);
  writer.U32(static_cast<std::uint32_t>(wishes.size()));
  for (const BlockWish& wish : wishes) Append(writer, wish);
  return out;
}

Result<std::vector<BlockWish>> DecodeWishes(std::string_view bytes, std::size_t limit) {
  ByteReader reader(bytes);
  const std::uint32_t count = reader.U32();
  if (count > limit) return Fail(Code::kInvalid, "{} blocks asked for, at most {}", count, limit);
  std::vector<BlockWish> wishes;
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(auto wish, Take(reader));
    wishes.push_back(std::move(wish));
  }
  if (!reader.ok() || reader.left() != 0) {
    return Fail(Code::kInvalid, "the list of blocks has another length than it says");
  }
  return wishes;
}

std::string EncodeHaves(std::span<const BlockHave> haves) {
  std::string out;
  out.reserve(haves.size());
  for (const BlockHave& have : haves) {
    out.push_back(static_cast<char>((have.wish ? 1 : 0) | (have.whole ? 2 : 0)));
  }
  return out;
}

Result<std::vector<BlockHave>> DecodeHaves(std::string_view bytes, std::size_t count) {
  if (bytes.size() != count) {
    return Fail(Code::kInvalid, "{} answers for {} blocks", bytes.size(), count);
  }
  std::vector<BlockHave> haves;
  haves.reserve(count);
  for (const char c : bytes) haves.push_back({.wish = (c & 1) != 0, .whole = (c & 2) != 0});
  return haves;
}

std::string EncodeGift(const BlockWish& wish, std::span<const std::byte> block) {
  std::string out;
  out.reserve(64 + wish.ranges.size() * 8 + wish.bytes());
  ByteWriter writer(out);
  Append(writer, wish);
  if (wish.whole) {
    writer.Bytes(AsText(block));
  } else {
    for (const ByteSpan& range : wish.ranges) {
      writer.Bytes(AsText(block.subspan(range.begin, range.end - range.begin)));
    }
  }
  return out;
}

Result<BlockGift> DecodeGift(std::string_view bytes) {
  ByteReader reader(bytes);
  ASSIGN_OR_RETURN(auto wish, Take(reader));
  if (reader.left() != wish.bytes()) {
    return Fail(Code::kInvalid, "block {}: {} bytes came, {} were announced", BlockName(wish.block),
                reader.left(), wish.bytes());
  }
  const std::string_view content = bytes.substr(bytes.size() - reader.left());
  return BlockGift{.wish = std::move(wish), .content = content};
}

}  // namespace paddleop::volume
