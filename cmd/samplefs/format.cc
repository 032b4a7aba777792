#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/posix.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

struct FormatFlags {
  std::string name;
  std::string storage = "file";
  std::string bucket;
  std::string access_key;
  std::string secret_key;
  std::string session_token;
  std::string block_size = "4M";
  std::string compress = "none";
  std::int64_t trash_days = 1;
  std::int64_t capacity_gib = 0;
  std::int64_t inodes = 0;
  std::int64_t upload_limit = 0;
  std::int64_t download_limit = 0;
  bool hash_prefix = false;
  bool force = false;
};

Result<volume::Setting> MakeSetting(const FormatFlags& flags) {
  volume::Setting setting;
  setting.name = flags.name;
  setting.uuid = RandomUuid();
  setting.storage = flags.storage;
  setting.bucket = flags.bucket;
  if (setting.storage == "file") {
    if (setting.bucket.empty()) {
      setting.bucket = ::geteuid() == 0 ? "/var/jfs/" : GetEnv("HOME", "/tmp") + "/.juicefs/local/";
    }
    setting.bucket = std::filesystem::absolute(setting.bucket).lexically_normal().string();
    if (!setting.bucket.ends_with('/')) setting.bucket += '/';
  } else if (setting.bucket.empty()) {
    return paddleop::Fail(Code::kInvalid, "--bucket is missing; storage \"{}\" needs one",
                          flags.storage);
  }
  setting.access_key = flags.access_key.empty() ? GetEnv("ACCESS_KEY") : flags.access_key;
  setting.secret_key = Secret(flags.secret_key.empty() ? GetEnv("SECRET_KEY") : flags.secret_key);
  setting.session_token =
      Secret(flags.session_token.empty() ? GetEnv("SESSION_TOKEN") : flags.session_token);
  auto size = ParseSize(flags.block_size);
  if (!size) return std::unexpected(std::move(size).error().Wrap("--block-size"));
  // As the official client: rounded down to a power of two, from 64 KiB to 16 MiB.
  setting.block_size_kib = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(std::bit_floor(*size >> 10), 64, 16 << 10));
  setting.compression = flags.compress;
  if (flags.trash_days < 0)
    return paddleop::Fail(Code::kInvalid, "--trash-days is {}; give 0 or more", flags.trash_days);
  setting.trash_days = static_cast<int>(flags.trash_days);
  if (flags.capacity_gib < 0 || flags.inodes < 0)
    return paddleop::Fail(Code::kInvalid, "--capacity and --inodes cannot be negative");
  setting.capacity = static_cast<std::uint64_t>(flags.capacity_gib) << 30;
  setting.inodes = static_cast<std::uint64_t>(flags.inodes);
  if (flags.upload_limit < 0 || flags.download_limit < 0)
    return paddleop::Fail(Code::kInvalid, "--upload-limit and --download-limit cannot be negative");
  setting.upload_limit = flags.upload_limit;
  setting.download_limit = flags.download_limit;
  setting.hash_prefix = flags.hash_prefix;
  return setting;
}

int RunFormat(Tool& tool, const FormatFlags& flags) {
  if (!flags.secret_key.empty()) {
    tool.log().Warn(
        tool.ctx(),
        "--secret-key is visible in the process list; use the environment variable SECRET_KEY");
  }
  auto setting = MakeSetting(flags);
  if (!setting) return tool.Fail(setting.error());
  auto formatted = volume::FormatVolume(tool.ctx(), tool.MetaUrl(), *setting, flags.force,
                                        tool.log(), tool.metrics());
  if (!formatted) return tool.Fail(formatted.error());
  if (tool.json) {
    tool.PrintJson(nlohmann::json::parse(setting->ToPublicJson()));
  } else {
    tool.Print(fmt::format("Volume \"{}\" is ready: storage {} at {}, blocks of {}.", setting->name,
                           setting->storage, RedactUrl(setting->bucket),
                           FormatSize(std::uint64_t{setting->block_size_kib} << 10)));
  }
  return kExitDone;
}

}  // namespace

void AddFormat(Command& program, Tool& tool) {
  auto flags = std::make_shared<FormatFlags>();
  Command command = program.AddCommand("format", "make a volume",
                                       [flags, &tool] { return RunFormat(tool, *flags); });
  command.AddArgument("VOLUME", &tool.volume,
                      "metadata URL: sqlite3://FILE or redis://HOST:PORT/DB");
  command.AddArgument("NAME", &flags->name,
                      "name of the volume: lower-case letters, digits and dashes");
  command.AddOption("--storage", &flags->storage, "where blocks are kept: file, s3, minio, redis");
  command.AddOption("--bucket", &flags->bucket, "directory, or URL of the bucket");
  command.AddOption("--access-key", &flags->access_key,
                    "access key, or the environment's ACCESS_KEY");
  command.AddOption("--secret-key", &flags->secret_key,
                    "secret key; better the environment's SECRET_KEY");
  command.AddOption("--session-token", &flags->session_token,
                    "session token, or the environment's SESSION_TOKEN");
  command.AddOption("--block-size", &flags->block_size, "size of blocks, 64K to 16M");
  command.AddOption("--compress", &flags->compress, "none, lz4 or zstd");
  command.AddOption("--trash-days", &flags->trash_days,
                    "days to keep removed files; 0 removes at once");
  command.AddOption("--capacity", &flags->capacity_gib, "limit of the volume in GiB; 0 is none");
  command.AddOption("--inodes", &flags->inodes, "limit of files; 0 is none");
  command.AddOption("--upload-limit", &flags->upload_limit,
                    "megabits that each client may upload per second; 0 is no limit");
  command.AddOption("--download-limit", &flags->download_limit,
                    "megabits that each client may download per second; 0 is no limit");
  command.AddFlag("--hash-prefix", &flags->hash_prefix,
                  "spread keys by a hash, for stores that need it");
  command.AddFlag("--force", &flags->force, "replace the setting of an existing volume");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
