#include <algorithm>
#include <array>
#include <charconv>

#include "volume/format/setting.h"

namespace paddleop::volume {
namespace {

struct Version {
  std::array<std::uint64_t, 3> number{};
  std::string_view pre;
};

Result<Version> ParseVersion(std::string_view text) {
  const std::string_view whole = text;
  Version version;
  text = text.substr(0, text.find('+'));
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    version.pre = text.substr(dash + 1);
    text = text.substr(0, dash);
  }
  for (std::size_t i = 0; i < version.number.size(); ++i) {
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), version.number[i]);
    if (error != std::errc()) {
      return Fail(Code::kInvalid, "'{}' is not a version major.minor.patch", whole);
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return version;
    if (text.front() != '.' || i == 2) break;
    text.remove_prefix(1);
  }
  return Fail(Code::kInvalid, "'{}' is not a version major.minor.patch", whole);
}

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool IsVolumeName(std::string_view name) {
  if (name.size() < 3 || name.size() > 63) return false;
  if (!IsLowerOrDigit(name.front()) || !IsLowerOrDigit(name.back())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLowerOrDigit(c) || c == '-'; });
}

}  // namespace

Result<int> CompareVersions(std::string_view a, std::string_view b) {
  ASSIGN_OR_RETURN(const Version left, ParseVersion(a));
  ASSIGN_OR_RETURN(const Version right, ParseVersion(b));
  if (left.number != right.number) return left.number < right.number ? -1 : 1;
  if (left.pre == right.pre) return 0;
  if (left.pre.empty()) return 1;
  if (right.pre.empty()) return -1;
  return left.pre < right.pre ? -1 : 1;
}

Result<void> Setting::ValidateNew() const {
  if (!IsVolumeName(name)) {
    return Fail(
        Code::kInvalid,
        "volume name '{}': 3 to 63 lower-case letters, digits and dashes, no dash at the ends",
        name);
  }
  if (uuid.empty()) return Fail(Code::kInvalid, "a volume needs a UUID");
  if (bucket.empty()) return Fail(Code::kInvalid, "a volume needs a bucket");
  if (block_size_kib < 64 || block_size_kib > (16U << 10) ||
      (block_size_kib & (block_size_kib - 1)) != 0) {
    return Fail(Code::kInvalid, "block size {} KiB: a power of two from 64 KiB to 16 MiB",
                block_size_kib);
  }
  if (shards > 256) return Fail(Code::kInvalid, "shards {}: at most 256", shards);
  if (trash_days < 0) return Fail(Code::kInvalid, "trash days {}: at least 0", trash_days);
  return CheckWritable();
}

Result<void> Setting::CheckReadable() const {
  if (meta_version > kMaxMetaVersion) {
    return Fail(Code::kNotSupported,
                "volume '{}' has MetaVersion {}, this client knows up to {}: upgrade the client",
                name, meta_version, kMaxMetaVersion);
  }
  if (!min_client_version.empty()) {
    ASSIGN_OR_RETURN(const int order, CompareVersions(kEmulatedVersion, min_client_version));
    if (order < 0) {
      return Fail(
          Code::kNotSupported,
          "volume '{}' asks for client {} or later (MinClientVersion), this one behaves like "
          "{}: upgrade the client",
          name, min_client_version, kEmulatedVersion);
    }
  }
  if (!max_client_version.empty()) {
    ASSIGN_OR_RETURN(const int order, CompareVersions(kEmulatedVersion, max_client_version));
    if (order > 0) {
      return Fail(
          Code::kNotSupported,
          "volume '{}' allows clients up to {} (MaxClientVersion), this one behaves like {}: "
          "raise the limit with 'juicefs config --max-client-version'",
          name, max_client_version, kEmulatedVersion);
    }
  }
  RETURN_IF_ERROR(ParseCompression(compression));
  if (!encrypt_key.empty()) {
    return Fail(
        Code::kNotSupported,
        "volume '{}' is encrypted, which this client does not support: use the official client "
        "or copy the data to a volume without encryption",
        name);
  }
  return {};
}

Result<void> Setting::CheckWritable() const {
  RETURN_IF_ERROR(CheckReadable());
  auto refuse = [&](std::string_view member, std::string_view what) -> Result<void> {
    return Fail(
        Code::kNotSupported,
        "volume '{}' has {} on, and this client does not keep {}: open it read-only, or write "
        "with the official client",
        name, member, what);
  };
  if (change_log) return refuse("ChangeLog", "the change log");
  if (enable_acl) return refuse("EnableACL", "access control lists");
  if (user_group_quota) return refuse("UserGroupQuota", "usage per user and group");
  return {};
}

}  // namespace paddleop::volume
