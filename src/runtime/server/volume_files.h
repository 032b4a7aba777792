#pragma once

#include <string>

#include "base/secret.h"
#include "base/status.h"
#include "volume/format/setting.h"

namespace paddleop::runtime {

// The set's Secret as files of one directory: name, storage, bucket, metaurl, and where needed
// access-key, secret-key, session-token. Values are trimmed.
struct VolumeFiles {
  std::string meta_url;  // with its password: not for logs
  std::string name;
  std::string storage;
  std::string bucket;
  std::string access_key;
  Secret secret_key;
  Secret session_token;

  // kNotFound or kInvalid name the key that is missing or empty.
  static Result<VolumeFiles> Read(const std::string& directory);

  // The setting of a new volume.
  volume::Setting NewSetting() const;
};

}  // namespace paddleop::runtime
