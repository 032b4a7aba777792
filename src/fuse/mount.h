#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "fuse/data_set_fs.h"
#include "fuse/exit_guard.h"
#include "fuse/general_fs.h"
#include "fuse/session.h"
#include "volume/vfs/data_set.h"
#include "volume/vfs/volume.h"

namespace paddleop::fuse {

struct MountOptions {
  SessionOptions session;
  bool read_only = false;  // data-set mode
  GeneralOptions general;
  volume::DataSetOptions data_set;
  DataSetFsOptions data_set_fs;
  std::chrono::milliseconds refresh_interval{0};  // data-set mode; 0: only when told
  // Data-set mode: what the kernel has in memory stays when not all of the data fit.
  bool keep_pages = true;
  std::string metrics_address;  // empty: none
  std::string meta_url;         // what other commands get when they name the mount point
};

// Mounts the volume, in data-set mode if it is read-only, and serves it until it is unmounted or
// the context stops, then commits what was written. `ready` is called when the kernel has accepted
// the mount.
//
// When the mount is to end, the guard is armed and stays so: the volume may wait for a store that
// hangs even while it is destroyed. So the guard outlives the volume.
Result<void> RunMount(const Context& ctx, volume::Volume& volume, const MountOptions& options,
                      MetricsRegistry& metrics, ExitGuard& guard, const Logger& log,
                      std::function<void()> ready);

}  // namespace paddleop::fuse
