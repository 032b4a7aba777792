// The nouns of a volume: inodes, attributes, directory entries, slices. Everything here is a plain
// value; how each is stored is in the codec headers beside this one.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::volume {

enum class Ino : std::uint64_t {};

constexpr std::uint64_t ToInt(Ino ino) { return static_cast<std::uint64_t>(ino); }

inline constexpr Ino kNoIno{0};
inline constexpr Ino kRootIno{1};
// The directory `.trash`; hourly directories below it are kTrashIno + n.
inline constexpr Ino kTrashIno{0x7FFFFFFF10000000};
inline constexpr std::string_view kTrashName = ".trash";

constexpr bool IsTrash(Ino ino) { return ino >= kTrashIno; }

inline constexpr std::uint64_t kChunkSize = 64ULL << 20;
inline constexpr std::size_t kMaxName = 255;
inline constexpr std::size_t kMaxSymlink = 4095;
inline constexpr std::uint64_t kMaxFileSize = 1ULL << 57;
inline constexpr std::uint64_t kMaxSliceSize = kChunkSize;

enum class FileType : std::uint8_t {
  kFile = 1,
  kDirectory = 2,
  kSymlink = 3,
  kFifo = 4,
  kBlockDevice = 5,
  kCharDevice = 6,
  kSocket = 7,
};

constexpr bool IsValidType(std::uint8_t type) { return type >= 1 && type <= 7; }

// Bits of Attr::flags.
inline constexpr std::uint8_t kFlagImmutable = 1;
inline constexpr std::uint8_t kFlagAppend = 2;
inline constexpr std::uint8_t kFlagSkipTrash = 32;

// Wall time as the volume keeps it.
struct Timestamp {
  std::int64_t seconds = 0;
  std::uint32_t nanos = 0;

  static Timestamp From(std::chrono::system_clock::time_point time);
  auto operator<=>(const Timestamp&) const = default;
};

struct Attr {
  FileType type = FileType::kFile;
  std::uint8_t flags = 0;
  std::uint16_t mode = 0;  // permission bits with setuid, setgid and sticky; no type bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t nlink = 1;
  std::uint32_t rdev = 0;
  std::uint64_t length = 0;
  Timestamp atime;
  Timestamp mtime;
  Timestamp ctime;
  Ino parent = kNoIno;  // kNoIno: the file has, or once had, several names
  // Carried through every rewrite, never interpreted here.
  std::uint32_t access_acl = 0;
  std::uint32_t default_acl = 0;
  std::uint8_t tier = 0;
  std::string tail;  // bytes of a later format that follow what we know

  bool operator==(const Attr&) const = default;
};

// What a directory entry holds besides its name.
struct Edge {
  Ino ino = kNoIno;
  FileType type = FileType::kFile;

  bool operator==(const Edge&) const = default;
};

// One record of a chunk: bytes [off, off+len) of the stored slice (id, size) appear at `pos` of the
// chunk. id 0 means zeros; size and off mean nothing then.
struct Slice {
  std::uint32_t pos = 0;
  std::uint64_t id = 0;
  std::uint32_t size = 0;
  std::uint32_t off = 0;
  std::uint32_t len = 0;

  bool operator==(const Slice&) const = default;
};

// A stored slice as a whole: what reference counts and deletions speak of.
struct SliceKey {
  std::uint64_t id = 0;
  std::uint32_t size = 0;

  auto operator<=>(const SliceKey&) const = default;
};

// The space an object of `length` bytes is charged: whole pages, and at least one.
constexpr std::uint64_t ChargedSpace(std::uint64_t length) {
  return length == 0 ? 4096 : (length + 4095) & ~std::uint64_t{4095};
}
// The same for an inode: only regular files are charged by length.
constexpr std::uint64_t ChargedSpace(const Attr& attr) {
  return attr.type == FileType::kFile ? ChargedSpace(attr.length) : 4096;
}

// A name that may become a directory entry: 1 to 255 bytes, no '/', no NUL, not "." or "..".
// kInvalid or kNameTooLong otherwise.
Result<void> ValidateName(std::string_view name);

}  // namespace paddleop::volume

template <>
struct std::hash<paddleop::volume::Ino> {
  std::size_t operator()(paddleop::volume::Ino ino) const noexcept {
    return std::hash<std::uint64_t>()(paddleop::volume::ToInt(ino));
  }
};
