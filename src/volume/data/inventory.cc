#include "volume/data/inventory.h"

namespace paddleop::volume::data {

Result<Inventory> TakeInventory(const Context& ctx, MetaStore& meta) {
  Inventory slices;
  RETURN_IF_ERROR(meta.ScanChunks(
      ctx, [&](Ino ino, std::uint32_t, const std::vector<Slice>& records) -> Result<void> {
        for (const Slice& record : records) {
          if (record.id == 0) continue;
          SliceFacts& facts = slices[record.id];
          facts.size = record.size;
          ++facts.records;
          facts.example = ino;
        }
        return {};
      }));
  RETURN_IF_ERROR(
      meta.ScanSliceRefs(ctx, [&](SliceKey slice, std::int64_t references) -> Result<void> {
        SliceFacts& facts = slices[slice.id];
        if (facts.size == 0) facts.size = slice.size;
        facts.references = references;
        facts.counted = true;
        return {};
      }));
  RETURN_IF_ERROR(meta.ScanDelayedSlices(ctx, [&](SliceKey slice, std::int64_t) -> Result<void> {
    SliceFacts& facts = slices[slice.id];
    if (facts.size == 0) facts.size = slice.size;
    ++facts.delayed;
    return {};
  }));
  return slices;
}

Result<void> ForEachBlockObject(const Context& ctx, object::ObjectStore& objects,
                                const BlockObjectFn& fn) {
  return objects.List(ctx, {.prefix = std::string(kChunksPrefix), .unfinished = true},
                      [&](object::ObjectInfo& info) -> Result<bool> {
                        std::optional<BlockId> block;
                        if (!info.unfinished) {
                          auto parsed = ParseBlockKey(info.key);
                          if (!parsed) return true;  // what somebody else put there
                          block = *parsed;
                        }
                        RETURN_IF_ERROR(fn(block, info));
                        return true;
                      });
}

}  // namespace paddleop::volume::data
