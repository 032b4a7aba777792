#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paddleop {

// CRC-32C (Castagnoli), the checksum of cached blocks and stored objects. `seed` is the value so
// far, to continue over several pieces. Uses the processor's instruction where it has one.
std::uint32_t Crc32c(std::string_view bytes, std::uint32_t seed = 0);

// The checksum of two pieces in a row from theirs; `size` is that of the second. Costs little
// beside reading them, unless the second has millions of bytes.
std::uint32_t Crc32cJoin(std::uint32_t first, std::uint32_t second, std::size_t size);

}  // namespace paddleop
