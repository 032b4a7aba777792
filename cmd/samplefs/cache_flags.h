// Flags of the commands that use the local cache, by the names that `juicefs mount` has.
#pragma once

#include <string>
#include <vector>

#include "common/command.h"
#include "volume/cache/cache_options.h"

namespace paddleop::cmd {

struct CacheFlags {
  std::vector<std::string> directories;
  std::vector<std::string> sizes;
  std::vector<std::string> free_space_ratios;
  std::string checksum = "extend";

  void Add(Command& command);
  // The official client's default directory is used if none was given and `use_default`.
  Result<volume::CacheOptions> Options(bool use_default) const;
};

}  // namespace paddleop::cmd
