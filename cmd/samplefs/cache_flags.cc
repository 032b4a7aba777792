#include "samplefs/cache_flags.h"

namespace paddleop::cmd {

void CacheFlags::Add(Command& command) {
  command.AddOption("--cache-dir", &directories,
                    "directory of the cache, or several as D:D; given again, the next level "
                    "(default: " +
                        volume::DefaultCacheDirectory() + ")");
  command.AddOption("--cache-size", &sizes, "MiB of each level (default: 102400)");
  command.AddOption("--free-space-ratio", &free_space_ratios,
                    "part of the disk that stays free, for each level (default: 0.1)");
  command.AddOption("--verify-cache-checksum", &checksum,
                    "none, full, shrink or extend: what is checked when cached data is read");
}

Result<volume::CacheOptions> CacheFlags::Options(bool use_default) const {
  auto levels = directories;
  if (levels.empty() && use_default) levels.push_back(volume::DefaultCacheDirectory());
  ASSIGN_OR_RETURN(auto options, volume::ParseCacheOptions(levels, sizes, free_space_ratios));
  ASSIGN_OR_RETURN(options.checksum, volume::ParseChecksumLevel(checksum));
  return options;
}

}  // namespace paddleop::cmd
