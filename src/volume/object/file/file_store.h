#pragma once

#include <memory>
#include <string>

#include "volume/object/object_store.h"

namespace paddleop::volume::object {

struct FileStoreOptions {
  // Flush each object to the disk before it appears. Off as in the official client: a power cut may
  // lose the last objects, the death of the process does not.
  bool sync = false;
};

// Objects as files under `root`, in directories where the key has a '/': the layout of the official
// client's `file` storage.
//
// A directory is also the empty object whose key ends with '/': it is made by a Put of nothing,
// found by Head, removed by Delete once it is empty, and listed only with ListOptions::directories.
// Keys with empty, "." or ".." parts and a name under another name cannot be held. Symbolic links
// are followed; a link that leads to one of its own parents is not listed.
Result<std::unique_ptr<ObjectStore>> OpenFileStore(const std::string& root,
                                                   FileStoreOptions options = {});

}  // namespace paddleop::volume::object
