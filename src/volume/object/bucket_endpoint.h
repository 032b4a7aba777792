#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "net/tls.h"

namespace paddleop::volume::object {

// A variable of the environment, or nullopt. Tests give their own.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment ProcessEnvironment();

// Where a bucket is and how to say so, as `juicefs format --bucket` means it.
struct BucketEndpoint {
  std::string scheme = {};     // "http" or "https"
  std::string authority = {};  // host and port, without the bucket and without a default port
  std::string bucket = {};
  std::string region = {};
  bool path_style = true;  // the bucket is the first part of the path, else of the host
  bool amazon = false;     // Amazon's own: addresses follow the region
  bool checksum = true;    // keep and compare Crc32c
  net::ClientTls tls = {};

  // "s3://bucket/" on Amazon's own service, else with the address.
  std::string Name(std::string_view storage) const;
};

// `--storage s3`: [scheme://]BUCKET.ENDPOINT[:port], [scheme://]ENDPOINT/BUCKET, or BUCKET alone
// (Amazon's). kInvalid quotes the text and says what a bucket looks like.
Result<BucketEndpoint> ParseS3Bucket(std::string_view bucket, const Environment& environment);
// `--storage minio`: [http://]HOST:PORT/BUCKET.
Result<BucketEndpoint> ParseMinioBucket(std::string_view bucket, const Environment& environment);

// `--storage bos`: [https://]BUCKET.REGION.bcebos.com, or scheme://HOST[:port]/BUCKET. Without a
// region BDCLOUD_DEFAULT_REGION is taken.
Result<BucketEndpoint> ParseBosBucket(std::string_view bucket, const Environment& environment);

}  // namespace paddleop::volume::object
