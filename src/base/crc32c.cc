#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace paddleop {
namespace {

constexpr std::array<std::uint32_t, 256> MakeTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}
constexpr auto kTable = MakeTable();

std::uint32_t Portable(std::uint32_t crc, const char* data, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    crc = kTable[(crc ^ static_cast<unsigned char>(data[i])) & 0xff] ^ (crc >> 8);
  }
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t Hardware(std::uint32_t crc, const char* data,
                                                         std::size_t size) {
  std::uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, static_cast<unsigned char>(*data));
  return crc;
}
#endif

}  // namespace

std::uint32_t Crc32c(std::string_view bytes, std::uint32_t seed) {
  const std::uint32_t start = ~seed;
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2");
  if (kHasInstruction) return ~Hardware(start, bytes.data(), bytes.size());
#endif
  return ~Portable(start, bytes.data(), bytes.size());
}

}  // namespace paddleop
