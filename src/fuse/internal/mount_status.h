#pragma once

#include <chrono>
#include <string>

#include "fuse/internal/page_keeper.h"
#include "fuse/mount.h"
#include "fuse/op_stats.h"
#include "volume/vfs/data_set.h"

namespace paddleop::fuse {

// What `samplefs status DIR` shows of a mount. Borrows everything. Thread-safe.
class MountStatus {
 public:
  // `data` is null in general mode, `keeper` if the kernel's pages are left alone.
  MountStatus(const MountOptions& options, volume::Volume& volume, volume::DataSet* data,
              PageKeeper* keeper, OpStats& stats)
      : options_(options), volume_(volume), data_(data), keeper_(keeper), stats_(stats) {}

  std::string Json() const;

 private:
  const MountOptions& options_;
  volume::Volume& volume_;
  volume::DataSet* const data_;
  PageKeeper* const keeper_;
  OpStats& stats_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

}  // namespace paddleop::fuse
