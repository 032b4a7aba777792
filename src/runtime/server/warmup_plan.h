// Which partition gets what in a warm-up. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "api/batch/sample_set.h"
#include "base/status.h"
#include "volume/data/warmup.h"
#include "volume/format/object_key.h"
#include "volume/meta/tree.h"
#include "volume/peer/block_wire.h"

namespace paddleop::runtime {

// A block and what each partition wants of it; partitions that want nothing are left out.
struct SharedBlock {
  volume::BlockId block;
  std::vector<std::pair<std::uint32_t, volume::BlockWish>> wishes;
};

struct SetPlan {
  std::vector<SharedBlock> blocks;  // those that `owner` is responsible for, in stored order
  std::uint64_t wished_bytes = 0;   // of these
  std::uint64_t set_bytes = 0;      // of all blocks that any partition wants, each once
  std::uint64_t files = 0;          // of the owner's own share
  bool tight = false;               // the set does not fit into one partition's cache
  bool fits = true;                 // but each partition's share does
  std::vector<volume::data::WarmupPlan::Failure> failures;
};

// The warm-up as the options say it, for `partitions` caches of `capacity` bytes each, seen by
// partition `owner`. `list` is the text of options.file, if that is given.
Result<SetPlan> PlanSet(const volume::Tree& tree, const volume::BlockLayout& layout,
                        const api::WarmupOptions& options, std::optional<std::string> list,
                        std::uint32_t partitions, std::uint32_t owner, std::uint64_t capacity);

// Pins of warm-ups over the same files begin with the same words; the rest tells one order from
// another, so that a new epoch takes the place of the one before.
std::string PlanPrefix(const api::WarmupOptions& options);
std::string PlanName(const api::WarmupOptions& options, std::uint32_t partitions);

}  // namespace paddleop::runtime
