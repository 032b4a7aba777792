#include "volume/format/cache_file.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/crc32c.h"

namespace paddleop::volume {

std::string CacheFilePath(std::string_view block_key) { return fmt::format("raw/{}", block_key); }

namespace {

std::string ChecksumsOf(std::string_view block, std::size_t span) {
  std::string checksums;
  ByteWriter out(checksums);
  for (std::size_t at = 0; at < block.size(); at += span) out.U32(Crc32c(block.substr(at, span)));
  return checksums;
}

}  // namespace

std::string CacheTrailer(std::string_view block, std::string_view fine) {
  if (fine.empty()) return ChecksumsOf(block, kCacheChecksumSpan);
  std::string trailer;
  ByteWriter out(trailer);
  ByteReader in(fine);
  for (std::size_t at = 0; at < block.size(); at += kCacheChecksumSpan) {
    const std::size_t end = std::min(at + kCacheChecksumSpan, block.size());
    std::uint32_t joined = in.U32();
    for (std::size_t next = at + kFineChecksumSpan; next < end; next += kFineChecksumSpan)
      joined = Crc32cJoin(joined, in.U32(), std::min(kFineChecksumSpan, end - next));
    out.U32(joined);
  }
  return trailer;
}

std::string FineChecksums(std::string_view block) {
  if (block.size() < kMinFineBlock || block.size() > kMaxFineBlock) return "";
  return ChecksumsOf(block, kFineChecksumSpan);
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
