// Gives a running container what is mounted at its volumes now. A mount process that has ended and
// was started again has made a new mount, which the container's own mount namespace does not have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "standalone/node/process/mount_table.h"
#include "standalone/node/process/shim_spec.h"

namespace paddleop::standalone::node {

// Those of a container's mounts that must be made again, outer ones first: the mounts of a volume
// whose present file system the container does not have, and what lies inside them. `volumes` are
// the paths at which file systems are mounted; what the container sees below `data_dir` does not
// count. Pure.
std::vector<BindMount> StaleMounts(const std::vector<BindMount>& mounts,
                                   const std::vector<std::string>& volumes,
                                   const MountTable& machine, const MountTable& container,
                                   std::string_view data_dir);

// Makes the mounts again in the container of this first process. `program` is one whose main()
// calls ShimMain. What the container has open there stays lost.
Result<void> Remount(const Context& ctx, const std::string& program, const RemountSpec& spec);

// The other side of it, in a process of its own: its exit code. Says what went wrong on standard
// output.
int RemountMain(std::string_view text);

}  // namespace paddleop::standalone::node
