#include "volume/cache/tiered_cache.h"

namespace paddleop::volume {
namespace {

class TieredCache final : public CacheStore {
 public:
  TieredCache(std::unique_ptr<CacheStore> memory, DiskCache& disk)
      : memory_(std::move(memory)), disk_(disk) {}

  bool Read(const Context& ctx, const BlockId& block, std::uint32_t offset,
            std::span<std::byte> out) override {
    if (memory_ && memory_->Read(ctx, block, offset, out)) {
      disk_.CountHit(out.size());
      return true;
    }
    return disk_.Read(ctx, block, offset, out);
  }

  bool Put(const Context& ctx, const BlockId& block, std::span<const std::byte> plain) override {
    const bool in_memory = memory_ && memory_->Put(ctx, block, plain);
    return disk_.Put(ctx, block, plain) || in_memory;
  }

  bool Contains(const BlockId& block) override {
    return (memory_ && memory_->Contains(block)) || disk_.Contains(block);
  }

  void Remove(const BlockId& block) override {
    if (memory_) memory_->Remove(block);
    disk_.Remove(block);
  }

  CacheUsage Usage() const override {
    CacheUsage usage = disk_.Usage();
    if (!memory_) return usage;
    const CacheUsage memory = memory_->Usage();
    return {.blocks = usage.blocks + memory.blocks,
            .bytes = usage.bytes + memory.bytes,
            .capacity = usage.capacity + memory.capacity};
  }

 private:
  const std::unique_ptr<CacheStore> memory_;
  DiskCache& disk_;
};

}  // namespace

std::unique_ptr<CacheStore> MakeTieredCache(std::unique_ptr<CacheStore> memory, DiskCache& disk) {
  return std::make_unique<TieredCache>(std::move(memory), disk);
}

}  // namespace paddleop::volume
