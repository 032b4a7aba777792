#pragma once

#include <span>

#include "runtime/protocol/status.h"
#include "volume/cache/disk_cache.h"

namespace paddleop::runtime {

// Adds the sizes of the disks that hold these cache directories to `info`, each disk once, told
// apart by its device.
void AddDisks(std::span<const volume::CacheDirectoryStatus> directories, CacheInfo& info);

}  // namespace paddleop::runtime
