#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "volume/format/types.h"

namespace paddleop::volume {

// Names that mean something else than a file in the root of a volume, to the official client or to
// us: the trash, and what its mounts show beside the tree.
inline bool IsReservedInRoot(std::string_view name) {
  constexpr std::array<std::string_view, 5> kReserved = {kTrashName, ".accesslog", ".stats",
                                                         ".config", ".control"};
  return std::ranges::find(kReserved, name) != kReserved.end();
}

}  // namespace paddleop::volume
