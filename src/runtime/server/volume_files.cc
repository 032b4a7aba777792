#include "runtime/server/volume_files.h"

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/posix.h"

namespace paddleop::runtime {
namespace {

Result<std::string> ReadKey(const std::string& directory, const std::string& key, bool required) {
  auto text = ReadFile(directory + "/" + key, 64 << 10);
  if (!text && IsNotFound(text.error()) && !required) return std::string();
  if (!text) return std::unexpected(std::move(text).error().Wrap("the volume's key " + key));
  std::string value(Trimmed(*text));
  if (required && value.empty()) {
    return Fail(Code::kInvalid, "the volume's key {} is empty ({}/{})", key, directory, key);
  }
  return value;
}

}  // namespace

Result<VolumeFiles> VolumeFiles::Read(const std::string& directory) {
  VolumeFiles files;
  ASSIGN_OR_RETURN(files.meta_url, ReadKey(directory, "metaurl", true));
  ASSIGN_OR_RETURN(files.name, ReadKey(directory, "name", true));
  ASSIGN_OR_RETURN(files.storage, ReadKey(directory, "storage", true));
  ASSIGN_OR_RETURN(files.bucket, ReadKey(directory, "bucket", true));
  ASSIGN_OR_RETURN(files.access_key, ReadKey(directory, "access-key", false));
  ASSIGN_OR_RETURN(std::string secret, ReadKey(directory, "secret-key", false));
  files.secret_key = Secret(std::move(secret));
  ASSIGN_OR_RETURN(std::string session, ReadKey(directory, "session-token", false));
  files.session_token = Secret(std::move(session));
  return files;
}

volume::Setting VolumeFiles::NewSetting() const {
  volume::Setting setting;
  setting.name = name;
  setting.uuid = RandomUuid();
  setting.storage = storage;
  setting.bucket = bucket;
  if (storage == "file" && !setting.bucket.ends_with('/')) setting.bucket += '/';
  setting.access_key = access_key;
  setting.secret_key = secret_key;
  setting.session_token = session_token;
  setting.block_size_kib = 4096;
  setting.trash_days = 1;
  return setting;
}

}  // namespace paddleop::runtime
