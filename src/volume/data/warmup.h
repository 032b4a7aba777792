// Bringing what a training job will read into the cache, and pinning it there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/status.h"
#include "volume/format/object_key.h"
#include "volume/meta/tree.h"
#include "volume/vfs/volume.h"

namespace paddleop::volume::data {

enum class WarmupStrategy {
  kAll,       // everything below the paths
  kSequence,  // what a rank of an unshuffled DistributedBatchSampler reads; without a batch size a
              // contiguous share
  kRandom,    // what a rank of a shuffled one reads in `epoch`
};
Result<WarmupStrategy> ParseWarmupStrategy(std::string_view name);

// Which samples of a data set a cache is to hold.
struct WarmupSelection {
  // Files and directories of the volume; empty: the root. With a list, what its lines are relative
  // to (at most one).
  std::vector<std::string> paths;
  // The text of an index-to-path list ("train_list.txt"): a path a line, which may be followed by
  // white space and a label. The n-th line is sample n. Without it, sample n is the n-th path in
  // byte order.
  std::optional<std::string> list;

  WarmupStrategy strategy = WarmupStrategy::kAll;
  std::uint32_t ranks = 0;       // 0: one for each partition
  std::uint32_t batch_size = 0;  // 0: not given
  std::optional<bool> shuffle;   // default: as the strategy says
  bool drop_last = false;
  std::uint32_t epoch = 0;
  // Which share: of one rank, or of all ranks that partition `partition` of `partitions` serves
  // (neighbouring ranks share a partition). Neither: of all ranks.
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> partition;
  std::uint32_t partitions = 1;
  // Keeps no more than the pages that are needed, also of blocks of which most is: for caches that
  // hold no more than their share.
  bool ranges_only = false;

  Result<void> Validate() const;
};

// Bytes [begin, end) of a block.
struct BlockRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool operator==(const BlockRange&) const = default;
};

// One block to have: whole if at least half of it is needed, otherwise the ranges that are, widened
// to 4 KiB pages, in order, apart.
struct PlannedBlock {
  BlockId block;
  bool whole = true;
  std::vector<BlockRange> ranges;    // empty if whole
  std::uint32_t planned = 0;         // bytes to be kept
  std::vector<std::uint32_t> files;  // that need it, each once, as numbered in file_blocks
};

struct WarmupPlan {
  std::vector<PlannedBlock> blocks;  // in the order they are stored in, each once
  std::uint64_t files = 0;
  std::vector<std::uint32_t> file_blocks;  // how many blocks each of those files needs
  std::uint64_t file_bytes = 0;            // of those files
  std::uint64_t cache_bytes = 0;           // of what is to be kept
  std::vector<Tree::NodeIndex> nodes;      // the files, in the order they will be read in
  struct Failure {
    std::string path;
    Status error;
  };
  std::vector<Failure> failures;  // paths and lines that name no file of the volume
};

// The plan for `selection` over a tree that was loaded with slices, whose root is the directory
// that the selection's paths are relative to. Pure. kInvalid: an option is wrong; kNotFound: a path
// of the selection (not of its list) is not there.
Result<WarmupPlan> PlanWarmup(const Tree& tree, const BlockLayout& layout,
                              const WarmupSelection& selection);

// A plan with the tree it was made from.
struct Warmup {
  Tree tree;
  std::string base;  // path of the tree's root in the volume, "" for the root
  WarmupPlan plan;
};

// Loads the part of the volume's tree that the selection needs, in bulk, and plans.
Result<Warmup> LoadWarmup(const Context& ctx, Volume& volume, const WarmupSelection& selection);

struct WarmupProgress {
  std::uint64_t blocks = 0;  // total
  std::uint64_t bytes = 0;   // total to be kept
  std::uint64_t done_blocks = 0;
  std::uint64_t done_bytes = 0;
  std::uint64_t cached_blocks = 0;  // part of done: were here already
  std::uint64_t cached_bytes = 0;
  std::uint64_t fetched_bytes = 0;  // over the network
  std::uint64_t failed_blocks = 0;
  std::uint64_t files = 0;       // total
  std::uint64_t done_files = 0;  // of which every block is there
};

struct WarmupOptions {
  std::string pin = "warmup";                                // the plan's name; empty: not pinned
  std::size_t threads = 16;                                  // blocks on their way at a time
  std::function<void(const WarmupProgress&)> progress = {};  // about once a second, and at the end
};

struct WarmupReport {
  WarmupProgress progress;
  struct Failure {
    BlockId block;
    Status error;
  };
  std::vector<Failure> failures;
};

// Fetches what is missing, every block at most once, and pins all of it under options.pin. Blocks
// that cannot be fetched or kept are in the report; when the cache is full of pinned blocks the
// rest fails without being fetched. Needs volume.disk_cache().
Result<WarmupReport> RunWarmup(const Context& ctx, Volume& volume, const WarmupPlan& plan,
                               const WarmupOptions& options);

// The planned files that lack a block because of `report`, with the reason: for people.
std::vector<WarmupPlan::Failure> FailedFiles(const Warmup& warmup, const BlockLayout& layout,
                                             const WarmupReport& report);

// How much of the plan is cached, without fetching or pinning.
Result<WarmupReport> CheckWarmup(const Context& ctx, Volume& volume, const WarmupPlan& plan);

// Removes what is planned, with its pins, from the cache. A block, or what is kept of one, of which
// less than half belongs to the planned files stays: others share it. With `pins`, the name of a
// warm-up's pins, what other warm-ups have pinned stays, too.
Result<DiskCache::Removed> EvictPlanned(const Context& ctx, Volume& volume, const WarmupPlan& plan,
                                        std::string_view pins);

}  // namespace paddleop::volume::data
