// Layout of a block in a local cache directory that the official client can share: the plain block,
// then one CRC-32C for each 32 KiB of it.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::volume {

inline constexpr std::size_t kCacheChecksumSpan = 32U << 10;

// Finer checksums, which only we keep and look for: one CRC-32C for each 8 KiB, in an extended
// attribute of the file, so that they come and go with it whoever removes it. A file out of the
// middle of a block is then checked without reading up to 32 KiB on either side of it.
inline constexpr std::size_t kFineChecksumSpan = 8U << 10;
inline constexpr char kFineChecksumXattr[] = "user.samplefs.crc32c-8k";
// Shorter blocks are read as a whole; longer ones would need more than ext4 has room for.
inline constexpr std::size_t kMinFineBlock = 1U << 20;
inline constexpr std::size_t kMaxFineBlock = 4U << 20;

// Where a block lies below "<cache directory>/<UUID>/": "raw/chunks/0/0/1_0_4194304".
std::string CacheFilePath(std::string_view block_key);
// The bytes that follow the block in its file; quicker if its finer checksums are known.
std::string CacheTrailer(std::string_view block, std::string_view fine = {});
// The value of the extended attribute; empty if a block of this length has none.
std::string FineChecksums(std::string_view block);
// Checks a whole block against its trailer. An empty trailer means the writer kept no checksums,
// and passes. kCorrupt names the piece that differs.
Result<void> VerifyCacheTrailer(std::string_view block, std::string_view trailer);

}  // namespace paddleop::volume
