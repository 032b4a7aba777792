#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "fuse/general_fs.h"
#include "fuse/session.h"
#include "volume/vfs/volume.h"

namespace paddleop::fuse {

struct MountOptions {
  SessionOptions session;
  GeneralOptions general;
  std::string meta_url;  // what other commands get when they name the mount point
};

// Mounts the volume and serves it until it is unmounted or the context stops, then commits what was
// written. `ready` is called when the kernel has accepted the mount.
//
// When the end takes too long, because a store hangs, the process exits with an error.
Result<void> RunMount(const Context& ctx, volume::Volume& volume, const MountOptions& options,
                      MetricsRegistry& metrics, const Logger& log, std::function<void()> ready);

}  // namespace paddleop::fuse
