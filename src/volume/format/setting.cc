#include "volume/format/setting.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/crypto.h"

namespace paddleop::volume {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxSetting = 1U << 20;
constexpr int kMaxDepth = 32;
constexpr std::string_view kRemoved = "removed";

// Takes known members out of the object one by one; what is left is unknown.
class MemberReader {
 public:
  explicit MemberReader(Json& object) : object_(object) {}

  template <class T>
  void Take(const char* member, T& value) {
    value = T{};
    const auto it = object_.find(member);
    if (it == object_.end()) return;
    if (!it->is_null() && !Fits(*it, value)) {
      if (error_.empty()) error_ = fmt::format("member {} has the wrong type or range", member);
      return;
    }
    object_.erase(it);
  }

  const std::string& error() const { return error_; }

 private:
  static bool Fits(const Json& json, std::string& value) {
    if (!json.is_string()) return false;
    value = json.get<std::string>();
    return true;
  }
  static bool Fits(const Json& json, bool& value) {
    if (!json.is_boolean()) return false;
    value = json.get<bool>();
    return true;
  }
  static bool Fits(const Json& json, std::uint64_t& value) {
    if (!json.is_number_unsigned()) return false;
    value = json.get<std::uint64_t>();
    return true;
  }
  static bool Fits(const Json& json, std::int64_t& value) {
    if (!json.is_number_integer()) return false;
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) return false;
    value = json.get<std::int64_t>();
    return true;
  }
  static bool Fits(const Json& json, std::uint32_t& value) {
    std::uint64_t wide = 0;
    if (!Fits(json, wide) || wide > UINT32_MAX) return false;
    value = static_cast<std::uint32_t>(wide);
    return true;
  }
  static bool Fits(const Json& json, int& value) {
    std::int64_t wide = 0;
    if (!Fits(json, wide) || wide < INT32_MIN || wide > INT32_MAX) return false;
    value = static_cast<int>(wide);
    return true;
  }

  Json& object_;
  std::string error_;
};

Result<Json> ParseObject(std::string_view text) {
  if (text.size() > kMaxSetting) {
    return Fail(Code::kCorrupt, "setting of {} bytes: at most {}", text.size(), kMaxSetting);
  }
  bool too_deep = false;
  auto watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return true;
  };
  Json object = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep) return Fail(Code::kCorrupt, "setting is nested deeper than {} levels", kMaxDepth);
  if (object.is_discarded()) return Fail(Code::kCorrupt, "setting is not JSON");
  if (!object.is_object()) return Fail(Code::kCorrupt, "setting is not a JSON object");
  return object;
}

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<void> Reveal(const Setting& setting, const char* member, bool key_encrypted,
                    Secret& secret) {
  if (secret.empty()) return {};
  if (secret.Reveal() == kRemoved) {
    return Fail(
        Code::kInvalid,
        "{} was removed from this setting by a dump: set it again (juicefs config, or samplefs "
        "format with the key in the environment)",
        member);
  }
  if (!key_encrypted) return {};
  if (setting.encrypt_algo == "sm4gcm") {
    return Fail(Code::kNotSupported, "{} is kept with sm4gcm, which this client does not speak",
                member);
  }
  auto plain = RevealSecret(setting.uuid, secret.Reveal());
  if (!plain) return std::unexpected(std::move(plain).error().Wrap(member));
  secret = Secret(*std::move(plain));
  return {};
}

// Writes members in the official order; the zero of a type is left out where the format says so.
class MemberWriter {
 public:
  template <class T>
  void Always(const char* member, const T& value) {
    object_[member] = value;
  }
  template <class T>
  void NonZero(const char* member, const T& value) {
    if (value != T{}) object_[member] = value;
  }
  Json& object() { return object_; }

 private:
  Json object_ = Json::object();
};

Json ToObject(const Setting& s, const std::string& secret_key, const std::string& session_token,
              const std::string& encrypt_key) {
  MemberWriter out;
  out.Always("Name", s.name);
  out.Always("UUID", s.uuid);
  out.Always("Storage", s.storage);
  out.NonZero("StorageClass", s.storage_class);
  out.Always("Bucket", s.bucket);
  out.NonZero("AccessKey", s.access_key);
  out.NonZero("SecretKey", secret_key);
  out.NonZero("SessionToken", session_token);
  out.Always("BlockSize", s.block_size_kib);
  out.NonZero("Compression", s.compression);
  out.NonZero("Shards", s.shards);
  out.NonZero("HashPrefix", s.hash_prefix);
  out.NonZero("Capacity", s.capacity);
  out.NonZero("Inodes", s.inodes);
  out.NonZero("EncryptKey", encrypt_key);
  out.NonZero("EncryptAlgo", s.encrypt_algo);
  out.NonZero("KeyEncrypted",
              !secret_key.empty() || !session_token.empty() || !encrypt_key.empty());
  out.NonZero("UploadLimit", s.upload_limit);
  out.NonZero("DownloadLimit", s.download_limit);
  out.Always("TrashDays", s.trash_days);
  out.NonZero("MetaVersion", s.meta_version);
  out.NonZero("MinClientVersion", s.min_client_version);
  out.NonZero("MaxClientVersion", s.max_client_version);
  out.NonZero("DirStats", s.dir_stats);
  out.NonZero("UserGroupQuota", s.user_group_quota);
  out.Always("EnableACL", s.enable_acl);
  out.NonZero("ChangeLog", s.change_log);
  const Json unknown = Json::parse(s.unknown_members, nullptr, false);
  if (unknown.is_object()) {
    for (const auto& [member, value] : unknown.items()) {
      if (!out.object().contains(member)) out.object()[member] = value;
    }
  }
  return std::move(out.object());
}

}  // namespace

Result<Setting> Setting::Parse(std::string_view json) {
  ASSIGN_OR_RETURN(Json object, ParseObject(json));
  Setting s;
  MemberReader in(object);
  bool key_encrypted = false;
  std::string secret_key;
  std::string session_token;
  std::string encrypt_key;
  in.Take("Name", s.name);
  in.Take("UUID", s.uuid);
  in.Take("Storage", s.storage);
  in.Take("StorageClass", s.storage_class);
  in.Take("Bucket", s.bucket);
  in.Take("AccessKey", s.access_key);
  in.Take("SecretKey", secret_key);
  in.Take("SessionToken", session_token);
  in.Take("BlockSize", s.block_size_kib);
  in.Take("Compression", s.compression);
  in.Take("Shards", s.shards);
  in.Take("HashPrefix", s.hash_prefix);
  in.Take("Capacity", s.capacity);
  in.Take("Inodes", s.inodes);
  in.Take("EncryptKey", encrypt_key);
  in.Take("EncryptAlgo", s.encrypt_algo);
  in.Take("KeyEncrypted", key_encrypted);
  in.Take("UploadLimit", s.upload_limit);
  in.Take("DownloadLimit", s.download_limit);
  in.Take("TrashDays", s.trash_days);
  in.Take("MetaVersion", s.meta_version);
  in.Take("MinClientVersion", s.min_client_version);
  in.Take("MaxClientVersion", s.max_client_version);
  in.Take("DirStats", s.dir_stats);
  in.Take("UserGroupQuota", s.user_group_quota);
  in.Take("EnableACL", s.enable_acl);
  in.Take("ChangeLog", s.change_log);
  if (!in.error().empty()) return Fail(Code::kCorrupt, "setting: {}", in.error());
  if (s.name.empty()) return Fail(Code::kCorrupt, "setting: member Name is missing");
  if (s.uuid.empty()) return Fail(Code::kCorrupt, "setting: member UUID is missing");
  const std::uint32_t kib = s.block_size_kib;
  if (kib < 64 || kib > (16U << 10) || (kib & (kib - 1)) != 0) {
    return Fail(Code::kCorrupt, "setting: BlockSize {} is not a power of two from 64 to 16384 KiB",
                kib);
  }
  s.secret_key = Secret(std::move(secret_key));
  s.session_token = Secret(std::move(session_token));
  s.encrypt_key = Secret(std::move(encrypt_key));
  RETURN_IF_ERROR(Reveal(s, "SecretKey", key_encrypted, s.secret_key));
  RETURN_IF_ERROR(Reveal(s, "SessionToken", key_encrypted, s.session_token));
  RETURN_IF_ERROR(Reveal(s, "EncryptKey", key_encrypted, s.encrypt_key));
  s.unknown_members = Dump(object, -1);
  return s;
}

Result<std::string> Setting::ToJson() const {
  auto seal = [&](const Secret& secret) -> Result<std::string> {
    if (secret.empty()) return std::string();
    return ObfuscateSecret(uuid, secret.Reveal());
  };
  ASSIGN_OR_RETURN(const std::string key, seal(secret_key));
  ASSIGN_OR_RETURN(const std::string token, seal(session_token));
  ASSIGN_OR_RETURN(const std::string pem, seal(encrypt_key));
  return Dump(ToObject(*this, key, token, pem), 0);
}

std::string Setting::ToPublicJson() const {
  auto mask = [](const Secret& secret) { return std::string(secret.empty() ? "" : kRemoved); };
  return Dump(ToObject(*this, mask(secret_key), mask(session_token), mask(encrypt_key)), 2);
}

Result<std::string> ObfuscateSecret(std::string_view uuid, std::string_view plain) {
  const std::string nonce = RandomBytes(12);
  ASSIGN_OR_RETURN(const std::string sealed, Aes128GcmSeal(Md5(uuid), nonce, plain));
  return Base64Encode(nonce + sealed);
}

Result<std::string> RevealSecret(std::string_view uuid, std::string_view stored) {
  auto bytes = Base64Decode(stored);
  if (!bytes || bytes->size() < 12 + 16) {
    return Fail(Code::kCorrupt, "stored secret is not base64 of a nonce and sealed text");
  }
  const std::string_view view = *bytes;
  auto plain = Aes128GcmOpen(Md5(uuid), view.substr(0, 12), view.substr(12));
  if (!plain) {
    return Fail(Code::kCorrupt, "stored secret was not sealed for the volume with UUID {}", uuid);
  }
  return plain;
}

}  // namespace paddleop::volume
