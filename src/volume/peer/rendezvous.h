#pragma once

#include <cstdint>
#include <vector>

#include "volume/format/object_key.h"

namespace paddleop::volume {

// The partition that is responsible for a block: it fetches the block from the object store on
// behalf of all. By rendezvous hashing, so that a change of the number of partitions moves as few
// blocks as possible: growing from P to P + 1 moves one in P + 1.
std::uint32_t OwnerOf(const BlockId& block, std::uint32_t partitions);

}  // namespace paddleop::volume
