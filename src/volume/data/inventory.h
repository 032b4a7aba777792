#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "base/context.h"
#include "volume/format/object_key.h"
#include "volume/format/types.h"
#include "volume/meta/meta_store.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::data {

// What the metadata says of every slice: the basis of fsck and gc. Some 40 bytes per slice.
struct SliceFacts {
  std::uint32_t size = 0;
  std::uint32_t records = 0;      // how many records refer to it, counted
  std::uint32_t delayed = 0;      // how often it waits in the trash of compaction
  std::int64_t references = 0;    // the stored count; meaningless if `counted` is false
  bool counted = false;           // a count is stored
  Ino example = kNoIno;           // one file that refers to it, to name in a report
  std::uint64_t blocks_seen = 0;  // objects found, by gc and fsck
};

using Inventory = std::unordered_map<std::uint64_t, SliceFacts>;

// Reads all chunks, reference counts and delayed slices. Not one transaction: what changes
// meanwhile may be seen before or after.
Result<Inventory> TakeInventory(const Context& ctx, MetaStore& meta);

// Calls `fn` for every object below "chunks/" that is named like a block, and without a block for
// what a writer that died left of one.
using BlockObjectFn = std::function<Result<void>(const std::optional<BlockId>& block,
                                                 const object::ObjectInfo& object)>;
Result<void> ForEachBlockObject(const Context& ctx, object::ObjectStore& objects,
                                const BlockObjectFn& fn);

}  // namespace paddleop::volume::data
