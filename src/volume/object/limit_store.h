#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

// Megabits (10^6 bits) per second, as UploadLimit and DownloadLimit of a volume and --bwlimit mean
// them; 0: no limit.
struct BandwidthLimit {
  std::int64_t upload_mbps = 0;
  std::int64_t download_mbps = 0;
};

// Delays transfers so that on average no more than the limit passes through this store. A transfer
// that could not begin before its deadline fails with kDeadline at once.
std::unique_ptr<ObjectStore> WithBandwidthLimit(std::unique_ptr<ObjectStore> inner,
                                                const BandwidthLimit& limit,
                                                Clock& clock = Clock::System());

}  // namespace paddleop::volume::object
