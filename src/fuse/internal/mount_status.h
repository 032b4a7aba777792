#pragma once

#include <chrono>
#include <string>

#include "fuse/mount.h"
#include "fuse/op_stats.h"
#include "volume/vfs/data_set.h"

namespace paddleop::fuse {

// What `samplefs status DIR` shows of a mount. Borrows everything. Thread-safe.
class MountStatus {
 public:
  // `data` is null in general mode.
  MountStatus(const MountOptions& options, volume::Volume& volume, volume::DataSet* data,
              OpStats& stats)
      : options_(options), volume_(volume), data_(data), stats_(stats) {}

  std::string Json() const;

 private:
  const MountOptions& options_;
  volume::Volume& volume_;
  volume::DataSet* const data_;
  OpStats& stats_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

}  // namespace paddleop::fuse
