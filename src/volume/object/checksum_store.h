#pragma once

#include <memory>

#include "volume/object/object_store.h"

namespace paddleop::volume::object {

// Records the CRC-32C of every object that is put and compares it on every whole Get, where the
// store keeps such metadata and the object has it (objects of other writers may not). A difference
// is kCorrupt. Stores without metadata are handed back as they are.
std::unique_ptr<ObjectStore> WithChecksum(std::unique_ptr<ObjectStore> inner);

}  // namespace paddleop::volume::object
