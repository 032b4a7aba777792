// Whatever somebody writes as a storage URI or a bucket: it is read or refused, and a secret never
// shows.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "volume/object/uri.h"

namespace {

using paddleop::Code;
using namespace paddleop::volume::object;

// The parts of the input around a secret that nothing else contains.
constexpr std::string_view kSecret = "S3CR3T-w0rd";

void CheckUri(const std::string& uri) {
  const auto parsed = ParseStorageUri(uri);
  if (!parsed) {
    CHECK(parsed.error().code() == Code::kInvalid || parsed.error().code() == Code::kNotSupported,
          "unexpected error");
    return;
  }
  CHECK(!parsed->config.storage.empty() && !parsed->config.bucket.empty(), "nothing was read");
  (void)parsed->Redacted();
  const auto environment = [](const char*) { return std::nullopt; };
  if (parsed->config.storage == "s3") (void)ParseS3Bucket(parsed->config.bucket, environment);
  if (parsed->config.storage == "minio") (void)ParseMinioBucket(parsed->config.bucket, environment);
  if (parsed->config.storage == "bos") (void)ParseBosBucket(parsed->config.bucket, environment);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckUri(text);
  // As a key in front of what the input says is a bucket.
  const std::string with_keys = "s3://AK:" + std::string(kSecret) + "@" + text;
  const auto parsed = ParseStorageUri(with_keys);
  const std::string shown = parsed ? parsed->Redacted() : parsed.error().message();
  CHECK(shown.find(kSecret) == std::string::npos, "a secret shows: {}", shown);
  return 0;
}
