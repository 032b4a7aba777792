// Walking the files of a cache directory.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>

#include "base/context.h"
#include "volume/format/object_key.h"

namespace paddleop::volume::cache {

// Calls `fn` for every regular file below `folder` that is named like a block; others are passed
// over. Files and folders that vanish meanwhile are fine, as is a missing `folder`.
using BlockFileFn =
    std::function<void(const std::string& path, const BlockId& block, const struct stat& info)>;
Result<void> WalkBlocks(const Context& ctx, const std::string& folder, const BlockFileFn& fn);

// Removes everything below `folder`, and the folder; fine if it is not there, and if others remove
// it at the same time.
Result<void> RemoveTree(const Context& ctx, const std::string& folder);

// Removes the folders below `folder`, and itself, that are empty.
void RemoveEmptyFolders(const std::string& folder);

// True for what a disk says of places that it cannot read or make sense of.
bool IsMediumError(int error);

// True for names that nobody can open: a symbolic link to itself, a socket.
bool IsNameError(int error);

// What a file is charged: whole 4 KiB pages; of a sparse one, those that it has.
std::uint64_t ChargedBytes(const struct stat& info, bool part);
// The same for the file of a whole block of `length` bytes, with its checksums or without.
std::uint64_t ChargeOf(std::uint32_t length, bool checksums);

}  // namespace paddleop::volume::cache
