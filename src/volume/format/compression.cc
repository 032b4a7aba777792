#include "volume/format/compression.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace paddleop::volume {
namespace {

// The largest block a volume may have; keeps sizes within LZ4's int.
constexpr std::size_t kMaxBlock = 16U << 20;

Result<std::string> CompressLz4(std::string_view plain) {
  std::string stored(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(plain.size()))),
                     '\0');
  const int size = LZ4_compress_default(plain.data(), stored.data(), static_cast<int>(plain.size()),
                                        static_cast<int>(stored.size()));
  if (size <= 0) return Fail(Code::kInternal, "lz4 cannot compress {} bytes", plain.size());
  stored.resize(static_cast<std::size_t>(size));
  return stored;
}

Result<std::string> CompressZstd(std::string_view plain) {
  std::string stored(ZSTD_compressBound(plain.size()), '\0');
  const std::size_t size =
      ZSTD_compress(stored.data(), stored.size(), plain.data(), plain.size(), /*level=*/1);
  if (ZSTD_isError(size) != 0) {
    return Fail(Code::kInternal, "zstd cannot compress {} bytes: {}", plain.size(),
                ZSTD_getErrorName(size));
  }
  stored.resize(size);
  return stored;
}

Result<void> WrongSize(std::string_view method, std::size_t expected) {
  return Fail(Code::kCorrupt, "stored block is not {} of {} bytes", method, expected);
}

}  // namespace

Result<Compression> ParseCompression(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (lower.empty() || lower == "none") return Compression::kNone;
  if (lower == "lz4") return Compression::kLz4;
  if (lower == "zstd") return Compression::kZstd;
  return Fail(
      Code::kNotSupported,
      "Compression '{}' is unknown: this client reads none, lz4 and zstd; copy the data to a "
      "volume that uses one of them",
      name);
}

Result<std::string> CompressBlock(Compression compression, std::string_view plain) {
  if (plain.size() > kMaxBlock) {
    return Fail(Code::kInvalid, "block of {} bytes: at most {}", plain.size(), kMaxBlock);
  }
  switch (compression) {
    case Compression::kNone:
      return std::string(plain);
    case Compression::kLz4:
      return CompressLz4(plain);
    case Compression::kZstd:
      return CompressZstd(plain);
  }
  return Fail(Code::kInternal, "compression {} out of range", static_cast<int>(compression));
}

Result<void> DecompressBlock(Compression compression, std::string_view stored,
                             std::span<std::byte> plain) {
  if (plain.size() > kMaxBlock) {
    return Fail(Code::kInvalid, "block of {} bytes: at most {}", plain.size(), kMaxBlock);
  }
  auto* const out = reinterpret_cast<char*>(plain.data());
  switch (compression) {
    case Compression::kNone:
      if (stored.size() != plain.size()) return WrongSize("a block", plain.size());
      if (!plain.empty()) std::memcpy(out, stored.data(), stored.size());
      return {};
    case Compression::kLz4: {
      if (stored.size() > static_cast<std::size_t>(LZ4_compressBound(kMaxBlock))) {
        return WrongSize("lz4", plain.size());
      }
      const int size = LZ4_decompress_safe(stored.data(), out, static_cast<int>(stored.size()),
                                           static_cast<int>(plain.size()));
      if (size < 0 || static_cast<std::size_t>(size) != plain.size()) {
        return WrongSize("lz4", plain.size());
      }
      return {};
    }
    case Compression::kZstd: {
      const std::size_t size = ZSTD_decompress(out, plain.size(), stored.data(), stored.size());
      if (ZSTD_isError(size) != 0 || size != plain.size()) return WrongSize("zstd", plain.size());
      return {};
    }
  }
  return Fail(Code::kInternal, "compression {} out of range", static_cast<int>(compression));
}

}  // namespace paddleop::volume
