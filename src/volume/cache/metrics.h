// Metrics of the caches. Counters are of this process; what all processes did together is in
// DiskCache::Status and Traffic.
#pragma once

namespace paddleop::volume::cache_metrics {

inline constexpr char kHits[] = "paddleop_cache_hits_total";  // label tier
inline constexpr char kHitsHelp[] = "reads that a cache served";
inline constexpr char kHitBytes[] = "paddleop_cache_hit_bytes_total";  // label tier
inline constexpr char kHitBytesHelp[] = "bytes that a cache served";
inline constexpr char kMisses[] = "paddleop_cache_misses_total";
inline constexpr char kMissesHelp[] = "reads that no cache served";
inline constexpr char kMissBytes[] = "paddleop_cache_miss_bytes_total";
inline constexpr char kMissBytesHelp[] = "bytes that no cache served";
inline constexpr char kStored[] = "paddleop_cache_stored_bytes_total";
inline constexpr char kRefused[] = "paddleop_cache_refused_total";
inline constexpr char kEvicted[] = "paddleop_cache_evicted_total";
inline constexpr char kCorrupt[] = "paddleop_cache_corrupt_total";
inline constexpr char kErrors[] = "paddleop_cache_disk_errors_total";
inline constexpr char kOut[] = "paddleop_cache_directories_out";

}  // namespace paddleop::volume::cache_metrics
