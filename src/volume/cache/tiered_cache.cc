#include "volume/cache/tiered_cache.h"

#include "volume/cache/metrics.h"

namespace paddleop::volume {
namespace {

class TieredCache final : public CacheStore {
 public:
  TieredCache(std::unique_ptr<CacheStore> memory, DiskCache* disk, MetricsRegistry& metrics)
      : memory_(std::move(memory)),
        disk_(disk),
        hits_(metrics.AddCounter(cache_metrics::kHits, cache_metrics::kHitsHelp,
                                 {{"tier", "memory"}})),
        hit_bytes_(metrics.AddCounter(cache_metrics::kHitBytes, cache_metrics::kHitBytesHelp,
                                      {{"tier", "memory"}})),
        misses_(metrics.AddCounter(cache_metrics::kMisses, cache_metrics::kMissesHelp)),
        miss_bytes_(metrics.AddCounter(cache_metrics::kMissBytes, cache_metrics::kMissBytesHelp)) {}

  bool Read(const Context& ctx, const BlockId& block, std::uint32_t offset,
            std::span<std::byte> out) override {
    if (memory_ && memory_->Read(ctx, block, offset, out)) {
      hits_.Increment();
      hit_bytes_.Increment(static_cast<double>(out.size()));
      if (disk_ != nullptr) disk_->CountHit(out.size());
      return true;
    }
    if (disk_ != nullptr) return disk_->Read(ctx, block, offset, out);
    misses_.Increment();
    miss_bytes_.Increment(static_cast<double>(out.size()));
    return false;
  }

  bool Put(const Context& ctx, const BlockId& block, std::span<const std::byte> plain) override {
    const bool in_memory = memory_ && memory_->Put(ctx, block, plain);
    return (disk_ != nullptr && disk_->Put(ctx, block, plain)) || in_memory;
  }

  bool Contains(const BlockId& block) override {
    return (memory_ && memory_->Contains(block)) || (disk_ != nullptr && disk_->Contains(block));
  }

  void Remove(const BlockId& block) override {
    if (memory_) memory_->Remove(block);
    if (disk_ != nullptr) disk_->Remove(block);
  }

  CacheUsage Usage() const override {
    const CacheUsage memory = memory_ ? memory_->Usage() : CacheUsage{};
    const CacheUsage disk = disk_ != nullptr ? disk_->Usage() : CacheUsage{};
    return {.blocks = memory.blocks + disk.blocks,
            .bytes = memory.bytes + disk.bytes,
            .capacity = memory.capacity + disk.capacity};
  }

 private:
  const std::unique_ptr<CacheStore> memory_;
  DiskCache* const disk_;
  MetricsRegistry::Counter& hits_;
  MetricsRegistry::Counter& hit_bytes_;
  MetricsRegistry::Counter& misses_;
  MetricsRegistry::Counter& miss_bytes_;
};

}  // namespace

std::unique_ptr<CacheStore> MakeTieredCache(std::unique_ptr<CacheStore> memory, DiskCache* disk,
                                            MetricsRegistry& metrics) {
  return std::make_unique<TieredCache>(std::move(memory), disk, metrics);
}

}  // namespace paddleop::volume
