#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/context.h"
#include "volume/format/object_key.h"

namespace paddleop::volume {

struct CacheUsage {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t capacity = 0;
};

// Blocks kept nearby. A cache can only help: whatever goes wrong inside is logged and counted there
// and looks like a miss from here.
//
// Thread-safe.
class CacheStore {
 public:
  virtual ~CacheStore() = default;

  // Copies bytes [offset, offset + out.size()) of the block's plain content. False if they are not
  // here.
  virtual bool Read(const Context& ctx, const BlockId& block, std::uint32_t offset,
                    std::span<std::byte> out) = 0;
  // Offers the whole plain content. False if it was not kept: there is no room, or it cannot be
  // stored.
  virtual bool Put(const Context& ctx, const BlockId& block, std::span<const std::byte> plain) = 0;
  virtual bool Contains(const BlockId& block) = 0;
  // Forgets the block; fine if it is not here.
  virtual void Remove(const BlockId& block) = 0;
  virtual CacheUsage Usage() const = 0;
};

}  // namespace paddleop::volume
