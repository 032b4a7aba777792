// The setting of a volume: the JSON object that makes it a volume.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "base/status.h"
#include "volume/format/compression.h"
#include "volume/format/object_key.h"

namespace paddleop::volume {

// The official release we behave like, compared with the setting's Min/MaxClientVersion.
inline constexpr std::string_view kEmulatedVersion = "1.3.1";
inline constexpr int kMaxMetaVersion = 1;

// Secrets are kept here in clear text; ToJson obfuscates them, Parse reverses it.
struct Setting {
  std::string name;
  std::string uuid;
  std::string storage = "file";
  std::string storage_class;
  std::string bucket;
  std::string access_key;
  Secret secret_key;
  Secret session_token;
  std::uint32_t block_size_kib = 4096;
  std::string compression = "none";
  std::uint32_t shards = 0;
  bool hash_prefix = false;
  std::uint64_t capacity = 0;  // bytes; 0 is unlimited
  std::uint64_t inodes = 0;
  Secret encrypt_key;  // PEM text
  std::string encrypt_algo = "aes256gcm-rsa";
  std::int64_t upload_limit = 0;  // Mbit/s
  std::int64_t download_limit = 0;
  int trash_days = 1;
  int meta_version = 1;
  std::string min_client_version = "1.1.0-A";
  std::string max_client_version;
  bool dir_stats = true;
  bool user_group_quota = false;
  bool enable_acl = false;
  bool change_log = false;
  // Members we do not know, as the text of a JSON object; they survive a rewrite.
  std::string unknown_members = "{}";

  // Reads the stored JSON. kCorrupt names the member that is wrong; secrets that cannot be
  // recovered are kInvalid with what to do.
  static Result<Setting> Parse(std::string_view json);
  // The stored form: members in the official order, one a line, secrets obfuscated.
  Result<std::string> ToJson() const;
  // For people and programs: the same object with secrets replaced by "removed".
  std::string ToPublicJson() const;

  // Members that make a volume: name, block size, UUID, compression. For `format`.
  Result<void> ValidateNew() const;
  // kNotSupported if this client cannot read the volume: a later MetaVersion, client version
  // limits, unknown compression, encryption. The message says what to do.
  Result<void> CheckReadable() const;
  // The same for writing: also change log, ACLs, user and group quotas.
  Result<void> CheckWritable() const;

  BlockLayout layout() const {
    return {.block_size = block_size_kib << 10, .hash_prefix = hash_prefix};
  }

  bool operator==(const Setting&) const = default;
};

// Obfuscation of secrets in the setting: AES-128-GCM under MD5 of the UUID text, base64 of
// nonce || ciphertext || tag. Anyone who reads the metadata can undo it.
Result<std::string> ObfuscateSecret(std::string_view uuid, std::string_view plain);
Result<std::string> RevealSecret(std::string_view uuid, std::string_view stored);

// Orders "1.3.1", "1.1.0-A", "1.5.0-dev+abc": build is ignored, a pre-release sorts before its
// release. Negative, zero or positive; kInvalid if one of them is no version.
Result<int> CompareVersions(std::string_view a, std::string_view b);

}  // namespace paddleop::volume
