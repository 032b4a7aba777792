#include "volume/data/gc.h"

#include <vector>

#include "volume/data/inventory.h"

namespace paddleop::volume::data {
namespace {

constexpr std::size_t kGcBatch = 1000;
constexpr std::size_t kPendingLimit = 1'000'000;

}  // namespace

Result<GcReport> CollectGarbage(const Context& ctx, MetaStore& meta, object::ObjectStore& objects,
                                const BlockLayout& layout, const GcOptions& options) {
  GcReport report;
  if (options.delete_leaked) {
    RETURN_IF_ERROR(meta.RunMaintenance(ctx, true));
    RETURN_IF_ERROR(meta.DrainDeletions(ctx));
  }
  // An object stored after this point has not been there for `min_age`, so it is safe from us.
  ASSIGN_OR_RETURN(const Inventory slices, TakeInventory(ctx, meta));
  for (const auto& [id, facts] : slices) {
    if (facts.records == 0 && facts.delayed == 0) ++report.pending_slices;
  }
  ASSIGN_OR_RETURN(const auto pending, meta.ListDeletedFiles(ctx, kPendingLimit));
  report.pending_files = pending.size();

  std::vector<std::string> batch;
  const auto flush = [&]() -> Result<void> {
    if (batch.empty()) return {};
    ASSIGN_OR_RETURN(const auto left, objects.DeleteMany(ctx, batch));
    report.failed_objects += left.size();
    report.deleted_objects += batch.size() - left.size();
    batch.clear();
    return {};
  };
  RETURN_IF_ERROR(ForEachBlockObject(
      ctx, objects,
      [&](const std::optional<BlockId>& block, const object::ObjectInfo& info) -> Result<void> {
        ++report.objects;
        report.bytes += info.size;
        const auto found = block ? slices.find(block->slice) : slices.end();
        if (found != slices.end() &&
            BlockLength(layout, found->second.size, block->index) == block->length)
          return {};
        if (options.now - info.mtime < options.min_age) {
          ++report.skipped_objects;
          return {};
        }
        ++report.leaked_objects;
        report.leaked_bytes += info.size;
        if (!options.delete_leaked) return {};
        batch.push_back(info.key);
        return batch.size() == kGcBatch ? flush() : Result<void>{};
      }));
  RETURN_IF_ERROR(flush());
  return report;
}

}  // namespace paddleop::volume::data
