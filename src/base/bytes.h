#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop {

// Without the white space around it.
inline std::string_view Trimmed(std::string_view text, std::string_view space = " \t\r\n") {
  const std::size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

// Appends integers in network byte order to a string.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}

  void U8(std::uint8_t v) { out_.push_back(static_cast<char>(v)); }
  void U16(std::uint16_t v) { Put(v); }
  void U32(std::uint32_t v) { Put(v); }
  void U64(std::uint64_t v) { Put(v); }
  void Bytes(std::string_view bytes) { out_.append(bytes); }

 private:
  template <class T>
  void Put(T value) {
    if constexpr (std::endian::native == std::endian::little) value = ByteSwap(value);
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    out_.append(raw, sizeof(T));
  }
  static std::uint16_t ByteSwap(std::uint16_t v) { return __builtin_bswap16(v); }
  static std::uint32_t ByteSwap(std::uint32_t v) { return __builtin_bswap32(v); }
  static std::uint64_t ByteSwap(std::uint64_t v) { return __builtin_bswap64(v); }

  std::string& out_;
};

// Reads integers in network byte order. Reading past the end yields zeros and makes ok() false, so
// a decoder checks once, at its end.
class ByteReader {
 public:
  explicit ByteReader(std::string_view in) : in_(in) {}

  std::uint8_t U8() { return static_cast<std::uint8_t>(Take(1)); }
  std::uint16_t U16() { return static_cast<std::uint16_t>(Take(2)); }
  std::uint32_t U32() { return static_cast<std::uint32_t>(Take(4)); }
  std::uint64_t U64() { return Take(8); }
  std::string_view Bytes(std::size_t n);

  std::size_t left() const { return in_.size(); }
  bool ok() const { return ok_; }

 private:
  std::uint64_t Take(std::size_t n);

  std::string_view in_;
  bool ok_ = true;
};

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Sizes as people read them: "0 B", "200 B", "4.0 KiB", "58 MiB", "7.3 GiB". Below ten units one
// decimal, otherwise none.
std::string FormatSize(std::uint64_t bytes);

// Reads "4096", "64K", "4M", "1.5 GiB", "10Ti": binary multiples, case and a trailing B or iB
// ignored. kInvalid names what was wrong.
Result<std::uint64_t> ParseSize(std::string_view text);

// "128,660".
std::string FormatCount(std::uint64_t n);

}  // namespace paddleop
