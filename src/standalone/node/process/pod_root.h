#pragma once

#include <vector>

#include "base/posix.h"
#include "standalone/node/process/shim_spec.h"

namespace paddleop::standalone::node {

// Gives the calling process, which already has a mount namespace and PIDs of its own, the file
// system of its container: the machine's, with /proc of its own PIDs, its /etc/hosts and its
// volumes. Mount points that the machine does not have are made in memory, in this namespace only:
// nothing is written to the machine's own directories.
Result<void> EnterPodRoot(const ShimSpec& spec);

// What is at a mount's source, taken along into another mount namespace.
struct MountTree {
  BindMount mount;
  UniqueFd tree;
  bool directory = true;
};
Result<MountTree> OpenMountTree(const BindMount& mount);

// In a process that has entered a container: takes away what is mounted at the targets, and puts
// the trees there. Outer ones come first.
Result<void> ReplaceMounts(const std::vector<MountTree>& trees);

}  // namespace paddleop::standalone::node
