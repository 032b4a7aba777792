#pragma once

#include <cstdint>
#include <string_view>

namespace paddleop {

// CRC-32C (Castagnoli), the checksum of cached blocks and stored objects. `seed` is the value so
// far, to continue over several pieces. Uses the processor's instruction where it has one.
std::uint32_t Crc32c(std::string_view bytes, std::uint32_t seed = 0);

}  // namespace paddleop
