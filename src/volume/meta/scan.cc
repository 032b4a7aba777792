#include "volume/meta/internal/store.h"
#include "volume/meta/internal/tree_builder.h"

namespace paddleop::volume {

Result<Tree> EngineMetaStore::LoadTree(const Context& ctx, Ino root, bool with_slices) {
  TreeBuilder builder(root, with_slices);
  RETURN_IF_ERROR(engine_->ScanTree(ctx, root, with_slices, builder));
  return std::move(builder).Build();
}

Result<void> EngineMetaStore::ScanChunks(const Context& ctx, const ChunkFn& fn) {
  return engine_->ScanChunks(ctx, fn);
}

Result<void> EngineMetaStore::ScanSliceRefs(const Context& ctx, const SliceRefFn& fn) {
  return engine_->ScanSliceRefs(ctx, fn);
}

Result<void> EngineMetaStore::ScanDelayedSlices(const Context& ctx, const SliceRefFn& fn) {
  ASSIGN_OR_RETURN(const auto records, engine_->ListDelayedSlices(ctx, INT64_MAX, SIZE_MAX / 2));
  for (const DelayedSlices& record : records) {
    for (const SliceKey& slice : record.slices) RETURN_IF_ERROR(fn(slice, 1));
  }
  return {};
}

}  // namespace paddleop::volume
