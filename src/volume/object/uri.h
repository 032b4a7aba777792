#pragma once

#include <string>
#include <string_view>

#include "base/secret.h"
#include "base/status.h"
#include "volume/object/bucket_endpoint.h"

namespace paddleop::volume::object {

// A place for objects in the words of `juicefs format`.
struct StorageConfig {
  std::string storage = {};  // "file", "s3", "minio", "bos", "redis", "hdfs" (to read); any case
  // A directory, or where the bucket is; see the storage's own header.
  std::string bucket = {};
  std::string access_key = {};  // "anonymous": unsigned requests whatever the environment says
  Secret secret_key = {};
  Secret session_token = {};
  int shards = 0;  // more than one: several buckets, which is not supported

  // Removes white space around the values: secrets often end with a line break.
  void Trim();
  // Fills missing keys from ACCESS_KEY, SECRET_KEY and SESSION_TOKEN, then as a whole from what
  // users of the storage have: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (s3,
  // minio), MINIO_ACCESS_KEY and MINIO_SECRET_KEY (minio), BDCLOUD_ACCESS_KEY and
  // BDCLOUD_SECRET_KEY (bos). Not for file and redis, which take none or have them in the bucket's
  // URL.
  void FillKeys(const Environment& environment);
};

struct StorageUri {
  StorageConfig config = {};
  std::string prefix = {};  // of keys within the bucket, as text; without the first '/'

  // For messages and logs: the URI without its secret.
  std::string Redacted() const;
};

// Reads a source or destination:
//
//   s3://[AK:SK[:TOKEN]@]BUCKET[.ENDPOINT][/PREFIX]    bos:// likewise
//   s3://[AK:SK[:TOKEN]@]HOST[:PORT]/BUCKET[/PREFIX]   where HOST is an address, localhost or
//   Amazon's s3.* minio://[AK:SK@]HOST:PORT/BUCKET[/PREFIX]
//   redis://[USER:PASSWORD@]HOST[:PORT][/DB[/PREFIX]]
//   hdfs://[USER@]HOST[:PORT][/PATH], the web port of a name node (9870); swebhdfs:// for TLS
//   file:///DIRECTORY, or just an absolute path
//
// Keys may be percent-encoded or raw; raw ones may contain '/' and '@'. Where that leaves two
// readings, the shortest key that is followed by a host wins. The prefix is percent-decoded. https
// is used where the service has it, unless `no_https`. kInvalid and kNotSupported quote the URI
// without its secret.
Result<StorageUri> ParseStorageUri(std::string_view uri, bool no_https = false);

}  // namespace paddleop::volume::object
