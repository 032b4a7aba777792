// Where blocks are cached and how much of it, as command lines and resources say it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paddleop::volume {

// How much of a cached file is checked against its checksums when it is read. Names as in
// `juicefs mount --verify-cache-checksum`.
enum class ChecksumLevel : std::uint8_t {
  kNone,    // write no checksums, check none
  kFull,    // only when a whole block is read
  kShrink,  // the 32 KiB pieces that the read covers
  kExtend,  // every piece the read touches: the read is widened to their borders
};
Result<ChecksumLevel> ParseChecksumLevel(std::string_view name);
std::string_view ChecksumLevelName(ChecksumLevel level);

inline constexpr std::uint64_t kDefaultCacheBytes = 100ULL << 30;
inline constexpr double kDefaultFreeSpaceRatio = 0.1;

// One directory that holds blocks; the volume's own is "<path>/<UUID>/" in it.
struct CacheDirectory {
  std::string path;
  std::uint64_t capacity = kDefaultCacheBytes;       // bytes of files
  double free_space_ratio = kDefaultFreeSpaceRatio;  // of the disk's bytes and inodes stay free
  // Levels are tried in ascending order, without promotion. Directories of one level share its
  // blocks by a hash of their names.
  unsigned level = 0;
};

struct CacheOptions {
  std::vector<CacheDirectory> directories;    // empty: no disk cache
  std::optional<std::uint64_t> memory_bytes;  // of blocks in the heap, where it was asked for
  ChecksumLevel checksum = ChecksumLevel::kExtend;
  // Disk reads bypass the page cache, so that a mount does not keep every byte twice.
  bool direct_reads = false;

  // kInvalid names what is wrong.
  Result<void> Validate() const;
};

// Reads the values of --cache-dir, --cache-size (MiB) and --free-space-ratio. Each value of
// --cache-dir is one level, "D" or "D:D", patterns like "/disk*" included; the n-th size and ratio
// belong to the n-th level, and the last ones given to all levels after it. A level's directories
// share its size equally. "memory" as the only directory means none: the size becomes the memory
// tier's.
Result<CacheOptions> ParseCacheOptions(const std::vector<std::string>& directories,
                                       const std::vector<std::string>& sizes_mib,
                                       const std::vector<std::string>& free_space_ratios);

// The official client's default: /var/jfsCache for root, ~/.juicefs/cache for others.
std::string DefaultCacheDirectory();

}  // namespace paddleop::volume
