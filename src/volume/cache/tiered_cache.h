#pragma once

#include <memory>

#include "base/metrics.h"
#include "volume/cache/disk_cache.h"

namespace paddleop::volume {

// Memory before disks. Reads try the memory, then the disks; blocks are offered to both, so that
// the neighbours of what was just fetched are found without a disk read. Nothing moves up. Counts
// what the memory serves, and, where there is no disk that would, what nobody serves.
// Either may be null. `disk` and `metrics` are borrowed.
std::unique_ptr<CacheStore> MakeTieredCache(std::unique_ptr<CacheStore> memory, DiskCache* disk,
                                            MetricsRegistry& metrics);

}  // namespace paddleop::volume
