#include "volume/format/cache_file.h"

#include "base/bytes.h"
#include "base/crc32c.h"

namespace paddleop::volume {

std::string CacheFilePath(std::string_view block_key) { return fmt::format("raw/{}", block_key); }

std::string CacheTrailer(std::string_view block) {
  std::string trailer;
  ByteWriter out(trailer);
  for (std::size_t at = 0; at < block.size(); at += kCacheChecksumSpan) {
    out.U32(Crc32c(block.substr(at, kCacheChecksumSpan)));
  }
  return trailer;
}

Result<void> VerifyCacheTrailer(std::string_view block, std::string_view trailer) {
  if (trailer.empty()) return {};
  const std::string expected = CacheTrailer(block);
  if (trailer.size() < expected.size()) {
    return Fail(Code::kCorrupt, "checksums of {} bytes instead of {}", trailer.size(),
                expected.size());
  }
  for (std::size_t at = 0; at < expected.size(); at += 4) {
    if (trailer.substr(at, 4) != std::string_view(expected).substr(at, 4)) {
      return Fail(Code::kCorrupt, "checksum of the 32 KiB piece {} differs", at / 4);
    }
  }
  return {};
}

}  // namespace paddleop::volume
