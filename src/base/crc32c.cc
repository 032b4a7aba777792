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

// One CRC instruction waits for the one before it, but three independent ones run side by side:
// long inputs are taken as three lanes, whose values are joined afterwards. Three lanes are just
// below 8 KiB, the pieces that most checksums are of.
constexpr std::size_t kLane = 2728;

// What a value becomes when kLane bytes of zeros follow, by each of its bytes.
using ShiftTable = std::array<std::array<std::uint32_t, 256>, 4>;
constexpr ShiftTable MakeShift() {
  ShiftTable shift{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t crc = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i < kLane; ++i) crc = kTable[crc & 0xff] ^ (crc >> 8);
    auto& bytes = shift[bit / 8];
    const std::size_t value = std::size_t{1} << (bit % 8);
    for (std::size_t rest = 0; rest < value; ++rest) bytes[value + rest] = crc ^ bytes[rest];
  }
  return shift;
}
constexpr ShiftTable kShift = MakeShift();

std::uint32_t Shift(std::uint64_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][(crc >> 8) & 0xff] ^ kShift[2][(crc >> 16) & 0xff] ^
         kShift[3][(crc >> 24) & 0xff];
}

#if defined(__x86_64__)
std::uint64_t WordAt(const char* data) {
  std::uint64_t word = 0;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t Hardware(std::uint32_t crc, const char* data,
                                                         std::size_t size) {
  std::uint64_t wide = crc;
  for (; size >= 3 * kLane; data += 3 * kLane, size -= 3 * kLane) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kLane; i += 8) {
      wide = _mm_crc32_u64(wide, WordAt(data + i));
      second = _mm_crc32_u64(second, WordAt(data + kLane + i));
      third = _mm_crc32_u64(third, WordAt(data + 2 * kLane + i));
    }
    wide = Shift(Shift(wide) ^ second) ^ third;
  }
  for (; size >= 8; data += 8, size -= 8) wide = _mm_crc32_u64(wide, WordAt(data));
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

std::uint32_t Crc32cJoin(std::uint32_t first, std::uint32_t second, std::size_t size) {
  for (; size >= kLane; size -= kLane) first = Shift(first);
  for (; size > 0; --size) first = kTable[first & 0xff] ^ (first >> 8);
  return first ^ second;
}

}  // namespace paddleop
