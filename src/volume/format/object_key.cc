#include "volume/format/object_key.h"

#include <charconv>

namespace paddleop::volume {

std::string BlockKey(const BlockLayout& layout, const BlockId& block) {
  if (layout.hash_prefix) {
    return fmt::format("chunks/{:02X}/{}/{}_{}_{}", block.slice % 256, block.slice / 1'000'000,
                       block.slice, block.index, block.length);
  }
  return fmt::format("chunks/{}/{}/{}_{}_{}", block.slice / 1'000'000, block.slice / 1000,
                     block.slice, block.index, block.length);
}

Result<BlockId> ParseBlockKey(std::string_view key) {
  const std::string_view base = key.substr(key.rfind('/') + 1);
  const char* at = base.data();
  const char* const end = base.data() + base.size();
  BlockId block;
  auto number = [&](auto& value, bool last) {
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || next == at) return false;
    if (last) return next == end;
    if (next == end || *next != '_') return false;
    at = next + 1;
    return true;
  };
  if (!number(block.slice, false) || !number(block.index, false) || !number(block.length, true)) {
    return Fail(Code::kInvalid, "object '{}' is not named <slice>_<block>_<length>", key);
  }
  return block;
}

std::uint32_t ShardOf(std::string_view key, std::uint32_t shards) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : key) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 16777619U;
  }
  return shards > 1 ? hash % shards : 0;
}

}  // namespace paddleop::volume
