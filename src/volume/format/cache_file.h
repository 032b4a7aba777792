// Layout of a block in a local cache directory that the official client can share: the plain block,
// then one CRC-32C for each 32 KiB of it.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::volume {

inline constexpr std::size_t kCacheChecksumSpan = 32U << 10;

// Where a block lies below "<cache directory>/<UUID>/": "raw/chunks/0/0/1_0_4194304".
std::string CacheFilePath(std::string_view block_key);
// The bytes that follow the block in its file.
std::string CacheTrailer(std::string_view block);
// Checks a whole block against its trailer. An empty trailer means the writer kept no checksums,
// and passes. kCorrupt names the piece that differs.
Result<void> VerifyCacheTrailer(std::string_view block, std::string_view trailer);

}  // namespace paddleop::volume
