#include "runtime/server/warmup_plan.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "api/batch/sample_job.h"
#include "base/crypto.h"
#include "volume/peer/rendezvous.h"

namespace paddleop::runtime {
namespace {

using volume::BlockId;
using volume::BlockWish;
using volume::data::PlannedBlock;
using volume::data::WarmupSelection;
using volume::data::WarmupStrategy;

Result<WarmupSelection> SelectionOf(const api::WarmupOptions& options,
                                    std::optional<std::string> list, std::uint32_t partitions) {
  WarmupSelection selection;
  selection.paths = options.paths;
  selection.list = std::move(list);
  ASSIGN_OR_RETURN(selection.strategy, volume::data::ParseWarmupStrategy(options.strategy_name));
  selection.ranks =
      static_cast<std::uint32_t>(options.ranks.value_or(static_cast<std::int32_t>(partitions)));
  selection.batch_size = static_cast<std::uint32_t>(options.batch_size.value_or(0));
  selection.shuffle = options.shuffle;
  selection.drop_last = options.drop_last.value_or(false);
  selection.epoch = static_cast<std::uint32_t>(options.epoch.value_or(0));
  selection.partitions = partitions;
  return selection;
}

BlockWish WishOf(const PlannedBlock& planned) {
  BlockWish wish{.block = planned.block, .whole = planned.whole};
  for (const auto& range : planned.ranges) wish.ranges.push_back({range.begin, range.end});
  return wish;
}

std::string Digest(const api::Json& json) {
  return HexEncode(Sha256(api::DumpJson(json))).substr(0, 12);
}

}  // namespace

namespace {

Result<SetPlan> PlanOnce(const volume::Tree& tree, const volume::BlockLayout& layout,
                         WarmupSelection selection, std::uint32_t partitions, std::uint32_t owner,
                         std::uint64_t capacity) {
  SetPlan result;
  std::map<BlockId, std::size_t> ours;  // position in result.blocks
  std::set<BlockId> all;
  for (std::uint32_t i = 0; i < partitions; ++i) {
    selection.partition = i;
    ASSIGN_OR_RETURN(auto plan, volume::data::PlanWarmup(tree, layout, selection));
    if (plan.cache_bytes > capacity) result.fits = false;
    for (const PlannedBlock& planned : plan.blocks) {
      if (all.insert(planned.block).second) result.set_bytes += planned.block.length;
      if (volume::OwnerOf(planned.block, partitions) != owner) continue;
      const auto [at, fresh] = ours.try_emplace(planned.block, result.blocks.size());
      if (fresh) result.blocks.push_back({.block = planned.block, .wishes = {}});
      result.blocks[at->second].wishes.emplace_back(i, WishOf(planned));
      result.wished_bytes += planned.planned;
    }
    if (i == owner) {
      result.files = plan.files;
      result.failures = std::move(plan.failures);
    }
  }
  return result;
}

}  // namespace

Result<SetPlan> PlanSet(const volume::Tree& tree, const volume::BlockLayout& layout,
                        const api::WarmupOptions& options, std::optional<std::string> list,
                        std::uint32_t partitions, std::uint32_t owner, std::uint64_t capacity) {
  ASSIGN_OR_RETURN(WarmupSelection selection, SelectionOf(options, std::move(list), partitions));
  ASSIGN_OR_RETURN(SetPlan plan, PlanOnce(tree, layout, selection, partitions, owner, capacity));
  if (plan.set_bytes <= capacity) return plan;
  selection.ranges_only = true;
  ASSIGN_OR_RETURN(plan, PlanOnce(tree, layout, selection, partitions, owner, capacity));
  plan.tight = true;
  return plan;
}

std::string PlanPrefix(const api::WarmupOptions& options) {
  return "warmup." + Digest({{"paths", options.paths}, {"file", options.file}}) + ".";
}

std::string PlanName(const api::WarmupOptions& options, std::uint32_t partitions) {
  api::WarmupOptions order = options;
  order.threads = 0;
  order.partitions = static_cast<std::int32_t>(partitions);
  return PlanPrefix(options) + Digest(api::ToJson(order));
}

}  // namespace paddleop::runtime
