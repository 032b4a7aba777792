#pragma once

#include <cstddef>
#include <memory>

#include "volume/object/object_store.h"

namespace paddleop::volume::object {

struct ThreadedOptions {
  std::size_t threads = 8;
  std::size_t queue_limit = 4096;  // a Start beyond it fails with kUnavailable
};

// Gives a store that blocks (file, redis) Start methods that return at once: they run on a pool.
// The threads are made with the first Start.
std::unique_ptr<ObjectStore> WithThreads(std::unique_ptr<ObjectStore> inner,
                                         ThreadedOptions options = {});

}  // namespace paddleop::volume::object
