// The XML that S3 speaks, read and written as values (Amazon S3 API reference). What comes from
// outside is limited in size and never trusted: kCorrupt says what was wrong with it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "volume/object/internal/rest_error.h"
#include "volume/object/internal/rest_store.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

// Larger answers are refused: a page of 1,000 keys of 1,024 bytes, all escaped, has some 4 MB.
inline constexpr std::size_t kMaxXmlBytes = 8 << 20;

// The <Error> of an answer; nullopt if the body is none.
std::optional<internal::RestError> ParseS3Error(std::string_view body);

// ListObjectsV2: objects and common prefixes together, in key order.
Result<internal::ListPage> ParseS3List(std::string_view body);
Result<std::string> ParseS3UploadId(std::string_view body);
// DeleteObjects in quiet mode: only what failed.
struct S3KeyError {
  std::string key;
  internal::RestError error;
};
Result<std::vector<S3KeyError>> ParseS3DeleteResult(std::string_view body);

// Whether XML 1.0 can hold the text at all: UTF-8, and no control characters but tab and line
// breaks.
bool FitsIntoXml(std::string_view text);
// The keys must fit into XML.
std::string S3DeleteBody(std::span<const std::string> keys);
std::string S3CompleteBody(std::span<const UploadedPart> parts);
std::string S3CreateBucketBody(std::string_view region);

}  // namespace paddleop::volume::object
