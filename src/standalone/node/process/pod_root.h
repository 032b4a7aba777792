#pragma once

#include "base/status.h"
#include "standalone/node/process/shim_spec.h"

namespace paddleop::standalone::node {

// Gives the calling process, which already has a mount namespace and PIDs of its own, the file
// system of its container: the machine's, with /proc of its own PIDs, its /etc/hosts and its
// volumes. Mount points that the machine does not have are made in memory, in this namespace only:
// nothing is written to the machine's own directories.
Result<void> EnterPodRoot(const ShimSpec& spec);

}  // namespace paddleop::standalone::node
