#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "volume/chunk/block_store.h"

namespace paddleop::volume {

// Where a runtime keeps its state in a cache directory, and where mounts of the node find it.
std::string RuntimeStateDir(std::string_view cache_directory, std::string_view uuid);
inline constexpr std::string_view kBlockSocketName = "blocks.sock";

// Asks the runtime of this node, over the socket in the cache directory, for bytes of a block: it
// gets them from another partition or the object store, and brings the block into the shared cache
// where there is room. Fails with kUnavailable at once where no runtime runs; it is looked for
// again every second.
//
// `directories` are the cache directories that mount and runtime share, `uuid` is the volume's.
BlockPeer MakeLocalPeer(std::vector<std::string> directories, std::string uuid);

}  // namespace paddleop::volume
