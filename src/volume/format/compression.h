// Compression of single blocks, as the volume's setting says.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::volume {

enum class Compression { kNone, kLz4, kZstd };

// "", "none", "lz4", "zstd" in any case; kNotSupported otherwise.
Result<Compression> ParseCompression(std::string_view name);

// The stored form of a block. kNone copies.
Result<std::string> CompressBlock(Compression compression, std::string_view plain);
// Fills `plain`, whose size is the block's plain length. kCorrupt if the stored bytes do not yield
// exactly that many.
Result<void> DecompressBlock(Compression compression, std::string_view stored,
                             std::span<std::byte> plain);

}  // namespace paddleop::volume
