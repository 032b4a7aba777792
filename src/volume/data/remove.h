#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "volume/data/import.h"
#include "volume/vfs/volume.h"

namespace paddleop::volume::data {

struct RemoveOptions {
  Caller caller = {};
  bool skip_trash = false;
};

struct RemoveReport {
  std::uint64_t removed = 0;             // names, directories included
  std::vector<FileFailure> failures;     // paths that are still there, or partly
  std::chrono::milliseconds names{0};    // until the last name was gone
  std::chrono::milliseconds elapsed{0};  // until the objects were gone, too
  Result<void> objects;                  // an error: their data is deleted later, by another client
};

// Removes files and directories with all they hold, many names in one transaction, and waits until
// their data is deleted from the object store (unless it went to the trash, or others still use
// it). A path that fails does not stop the others.
RemoveReport RemovePaths(const Context& ctx, Volume& volume, std::span<const std::string> paths,
                         const RemoveOptions& options);

}  // namespace paddleop::volume::data
