#include "volume/format/redis_keys.h"

#include <charconv>

namespace paddleop::volume {
namespace {

template <class T>
bool ParseNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string RedisKeys::Numbered(std::string_view kind, std::uint64_t number) const {
  return fmt::format("{}{}{}", prefix_, kind, number);
}

std::string RedisKeys::Chunk(Ino ino, std::uint32_t index) const {
  return fmt::format("{}c{}_{}", prefix_, ToInt(ino), index);
}

std::string SliceRefField(const SliceKey& slice) {
  return fmt::format("k{}_{}", slice.id, slice.size);
}

Result<SliceKey> ParseSliceRefField(std::string_view field) {
  SliceKey slice;
  const auto split = field.find('_');
  if (split == std::string_view::npos || !field.starts_with('k') ||
      !ParseNumber(field.substr(1, split - 1), slice.id) ||
      !ParseNumber(field.substr(split + 1), slice.size)) {
    return Fail(Code::kCorrupt, "slice reference '{}' is not k<id>_<size>", field);
  }
  return slice;
}

std::string DelFileMember(Ino ino, std::uint64_t length) {
  return fmt::format("{}:{}", ToInt(ino), length);
}

Result<std::pair<Ino, std::uint64_t>> ParseDelFileMember(std::string_view member) {
  std::uint64_t ino = 0;
  std::uint64_t length = 0;
  const auto split = member.find(':');
  if (split == std::string_view::npos || !ParseNumber(member.substr(0, split), ino) ||
      !ParseNumber(member.substr(split + 1), length)) {
    return Fail(Code::kCorrupt, "deleted file '{}' is not <inode>:<length>", member);
  }
  return std::pair(Ino{ino}, length);
}

Result<std::pair<Ino, std::uint32_t>> ParseChunkKey(std::string_view key) {
  std::uint64_t ino = 0;
  std::uint32_t index = 0;
  const auto split = key.find('_');
  if (split == std::string_view::npos || !key.starts_with('c') ||
      !ParseNumber(key.substr(1, split - 1), ino) || !ParseNumber(key.substr(split + 1), index)) {
    return Fail(Code::kCorrupt, "chunk key '{}' is not c<inode>_<index>", key);
  }
  return std::pair(Ino{ino}, index);
}

}  // namespace paddleop::volume
