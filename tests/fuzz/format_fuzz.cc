// Decoders of the volume format: whatever the bytes, they answer with a value or an error, and a
// value written again reads as the same value.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "volume/format/chunk_view.h"
#include "volume/format/codec.h"
#include "volume/format/compression.h"
#include "volume/format/object_key.h"
#include "volume/format/redis_keys.h"
#include "volume/format/setting.h"

namespace {

namespace volume = paddleop::volume;

void Require(bool condition) {
  if (!condition) std::abort();
}

void FuzzAttr(std::string_view bytes) {
  if (const auto attr = volume::DecodeAttr(bytes)) {
    const auto again = volume::DecodeAttr(volume::EncodeAttr(*attr));
    Require(again && *again == *attr);
  }
  if (const auto edge = volume::DecodeEdge(bytes)) Require(volume::EncodeEdge(*edge) == bytes);
}

void FuzzSlices(std::string_view bytes) {
  if (const auto slices = volume::DecodeSlices(bytes)) {
    Require(volume::EncodeSlices(*slices) == bytes);
    std::uint32_t at = 0;
    for (const auto& piece : volume::BuildChunkView(*slices, 1U << 20)) {
      Require(piece.pos == at && piece.len > 0);
      at += piece.len;
    }
    Require(at == 1U << 20);
  }
  if (const auto keys = volume::DecodeSliceKeys(bytes)) {
    Require(volume::EncodeSliceKeys(*keys) == bytes);
  }
}

void FuzzSetting(std::string_view bytes) {
  if (const auto setting = volume::Setting::Parse(bytes)) {
    (void)setting->CheckReadable();
    (void)setting->ToPublicJson();
    const auto json = setting->ToJson();
    Require(json.has_value());
    const auto again = volume::Setting::Parse(*json);
    Require(again && *again == *setting);
  }
}

void FuzzBlocks(std::string_view bytes) {
  std::byte plain[512];
  for (const auto method : {volume::Compression::kLz4, volume::Compression::kZstd}) {
    (void)volume::DecompressBlock(method, bytes, plain);
  }
  (void)volume::ParseBlockKey(bytes);
  (void)volume::ParseSliceRefField(bytes);
  (void)volume::ParseDelFileMember(bytes);
  (void)volume::ParseChunkKey(bytes);
}

}  // namespace

// The first byte chooses the decoder.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      FuzzAttr(bytes);
      break;
    case 1:
      FuzzSlices(bytes);
      break;
    case 2:
      FuzzSetting(bytes);
      break;
    default:
      FuzzBlocks(bytes);
  }
  return 0;
}
