#include "samplefs/cache_flags.h"

#include "samplefs/mount_flags.h"

namespace paddleop::cmd {
namespace {

// The cache takes MiB; people also give sizes with a unit, as to the official client.
Result<std::string> InMebibytes(const std::string& size) {
  ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseMebibytes("cache-size", size));
  // Rounded up: a size of zero would mean no cache.
  return std::to_string((bytes >> 20) + ((bytes & 0xFFFFF) != 0 ? 1 : 0));
}

}  // namespace

void CacheFlags::Add(Command& command) {
  command.AddOption("--cache-dir", &directories,
                    "directory of the cache, or several as D:D; given again, the next level "
                    "(default: " +
                        volume::DefaultCacheDirectory() + ")");
  command.AddOption("--cache-size", &sizes,
                    "MiB of each level, or a size such as 100G (default: 102400)");
  command.AddOption("--free-space-ratio", &free_space_ratios,
                    "part of the disk that stays free, for each level (default: 0.1)");
  command.AddOption("--verify-cache-checksum", &checksum,
                    "none, full, shrink or extend: what is checked when cached data is read");
}

Result<volume::CacheOptions> CacheFlags::Options(bool use_default) const {
  auto levels = directories;
  if (levels.empty() && use_default) levels.push_back(volume::DefaultCacheDirectory());
  std::vector<std::string> mebibytes;
  for (const std::string& size : sizes) {
    ASSIGN_OR_RETURN(mebibytes.emplace_back(), InMebibytes(size));
  }
  ASSIGN_OR_RETURN(auto options, volume::ParseCacheOptions(levels, mebibytes, free_space_ratios));
  ASSIGN_OR_RETURN(options.checksum, volume::ParseChecksumLevel(checksum));
  return options;
}

}  // namespace paddleop::cmd
