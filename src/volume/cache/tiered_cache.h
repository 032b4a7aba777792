#pragma once

#include <memory>

#include "volume/cache/disk_cache.h"

namespace paddleop::volume {

// Memory before disks. Reads try the memory, then the disks; blocks are offered to both, so that
// the neighbours of what was just fetched are found without a disk read. Nothing moves up.
// `memory` may be null. `disk` is borrowed.
std::unique_ptr<CacheStore> MakeTieredCache(std::unique_ptr<CacheStore> memory, DiskCache& disk);

}  // namespace paddleop::volume
