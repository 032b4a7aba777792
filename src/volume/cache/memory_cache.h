#pragma once

#include <cstdint>
#include <memory>

#include "volume/cache/cache_store.h"

namespace paddleop::volume {

// Blocks in the heap, the least recently read leaving first. `capacity` bounds the bytes of
// content; a block larger than a shard's part of it is not kept.
std::unique_ptr<CacheStore> MakeMemoryCache(std::uint64_t capacity);

}  // namespace paddleop::volume
