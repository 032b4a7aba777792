// Which blocks, and which bytes of them, a warm-up has to bring. Pure.
#include <algorithm>
#include <numeric>

#include "sampler/distributed_batch_sampler.h"
#include "volume/data/warmup.h"
#include "volume/format/chunk_view.h"

namespace paddleop::volume::data {
namespace {

constexpr std::uint32_t kPage = 4096;
constexpr int kMaxLabels = 256;  // words after a path in a list

using Node = Tree::NodeIndex;

Node RootOf(const Tree& tree) { return tree.Find(tree.root()); }

// Walks a path; "" is the root. kNone if it is not there.
Node FindPath(const Tree& tree, std::string_view path) {
  Node node = RootOf(tree);
  while (!path.empty() && node != Tree::kNone) {
    const auto slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
    if (name.empty() || name == ".") continue;
    node = tree.Lookup(node, name);
  }
  return node;
}

// Files below `node` in the byte order of their paths. A directory sorts as if its name ended with
// '/', as it does in a path.
void CollectFiles(const Tree& tree, Node node, std::vector<Node>& files) {
  if (tree.type(node) == FileType::kFile) files.push_back(node);
  if (tree.type(node) != FileType::kDirectory) return;
  std::vector<Tree::Child> children(tree.child_count(node));
  for (std::size_t i = 0; i < children.size(); ++i) children[i] = tree.child(node, i);
  const auto next = [&](const Tree::Child& child, std::size_t at) -> int {
    if (at < child.name.size()) return static_cast<unsigned char>(child.name[at]);
    return tree.type(child.node) == FileType::kDirectory && at == child.name.size() ? '/' : -1;
  };
  const auto before = [&](const Tree::Child& a, const Tree::Child& b) {
    const std::size_t common = std::min(a.name.size(), b.name.size());
    const int order = a.name.substr(0, common).compare(b.name.substr(0, common));
    if (order != 0) return order < 0;
    return next(a, common) < next(b, common);
  };
  std::sort(children.begin(), children.end(), before);
  for (const Tree::Child& child : children) CollectFiles(tree, child.node, files);
}

Result<std::vector<Node>> FilesOfPaths(const Tree& tree, const WarmupSelection& selection) {
  std::vector<std::string> paths = selection.paths;
  if (paths.empty()) paths.emplace_back();
  std::vector<Node> files;
  for (const std::string& path : paths) {
    const Node node = FindPath(tree, path);
    if (node == Tree::kNone) return Fail(Code::kNotFound, "{} is not in the volume", path);
    CollectFiles(tree, node, files);
  }
  if (paths.size() > 1) {
    // Paths may lie within one another; the first place counts.
    std::vector<bool> seen(tree.node_count());
    std::erase_if(files, [&](Node node) {
      const bool again = seen[node];
      seen[node] = true;
      return again;
    });
  }
  return files;
}

std::string_view TrimRight(std::string_view text) {
  const auto end = text.find_last_not_of(" \t\r");
  return text.substr(0, end == std::string_view::npos ? 0 : end + 1);
}

// A line is a path, or a path and what belongs to it: a label, several, or after a tab a text. A
// path may contain spaces, so the longest beginning of the line that is one counts.
Node FindLine(const Tree& tree, const std::string& base, std::string_view line) {
  const auto find = [&](std::string_view path) {
    return FindPath(tree, base.empty() ? std::string(path) : base + "/" + std::string(path));
  };
  Node node = find(line);
  if (const auto tab = line.find('\t'); node == Tree::kNone && tab != std::string_view::npos)
    node = find(TrimRight(line = line.substr(0, tab)));
  for (int words = 0; node == Tree::kNone && words < kMaxLabels; ++words) {
    const auto space = line.find_last_of(" \t");
    if (space == std::string_view::npos) break;
    line = TrimRight(line.substr(0, space));
    node = find(line);
  }
  return node;
}

std::vector<Node> FilesOfList(const Tree& tree, const WarmupSelection& selection,
                              WarmupPlan& plan) {
  const std::string base = selection.paths.empty() ? "" : selection.paths[0];
  std::vector<Node> files;
  std::string_view rest = *selection.list;
  std::uint64_t number = 0;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = TrimRight(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.empty()) continue;
    const Node node = FindLine(tree, base, line);
    if (node == Tree::kNone || tree.type(node) != FileType::kFile) {
      const char* why = node == Tree::kNone ? "not in the volume" : "not a file";
      plan.failures.push_back(
          {std::string(line), Status(Code::kNotFound, fmt::format("line {}: {}", number, why))});
      // It keeps its number, or all samples after it would be other ones.
      files.push_back(Tree::kNone);
      continue;
    }
    files.push_back(node);
  }
  return files;
}

// The samples that the selection's rank or partition reads, in that order, each once.
Result<std::vector<Node>> ShareOf(const WarmupSelection& selection, std::vector<Node> samples) {
  if (selection.strategy == WarmupStrategy::kAll || samples.empty()) return samples;
  const std::uint32_t ranks =
      selection.ranks > 0 ? selection.ranks : std::max<std::uint32_t>(1, selection.partitions);
  const auto wanted = [&](std::uint32_t rank) {
    if (selection.rank) return rank == *selection.rank;
    if (selection.partition) {
      return sampler::PartitionOfRank(rank, ranks, selection.partitions) == *selection.partition;
    }
    return true;
  };
  const bool shuffle = selection.shuffle.value_or(selection.strategy == WarmupStrategy::kRandom);
  std::vector<std::vector<sampler::SampleIndex>> shares;
  if (!shuffle && selection.batch_size == 0) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto [begin, end] = sampler::ContiguousShare(samples.size(), ranks, rank);
      std::vector<sampler::SampleIndex> share(end - begin);
      std::iota(share.begin(), share.end(), static_cast<sampler::SampleIndex>(begin));
      shares.push_back(std::move(share));
    }
  } else {
    ASSIGN_OR_RETURN(shares, sampler::AllRankOrders(
                                 {.samples = samples.size(),
                                  .ranks = ranks,
                                  .batch_size = std::max<std::uint32_t>(1, selection.batch_size),
                                  .shuffle = shuffle,
                                  .drop_last = selection.drop_last,
                                  .epoch = selection.epoch}));
  }
  std::vector<Node> chosen;
  std::vector<bool> seen(samples.size());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (!wanted(rank)) continue;
    for (const auto index : shares[rank]) {
      if (!seen[index]) chosen.push_back(samples[index]);
      seen[index] = true;
    }
  }
  return chosen;
}

struct Piece {
  BlockId block;
  BlockRange range;
  std::uint32_t file = 0;
};

// The stored bytes behind a file.
void AddPieces(const Tree& tree, const BlockLayout& layout, Node file, std::uint32_t number,
               std::vector<Piece>& pieces) {
  ForEachChunk(0, tree.length(file), [&](std::uint32_t index, std::uint32_t, std::uint32_t len) {
    const auto records = tree.Slices(file, index);
    for (const Slice& slice : BuildChunkView(records, len)) {
      if (slice.id == 0) continue;
      for (std::uint64_t at = slice.off, end = at + slice.len; at < end;) {
        const auto index_in_slice = static_cast<std::uint32_t>(at / layout.block_size);
        const auto inside = static_cast<std::uint32_t>(at % layout.block_size);
        const auto count = std::min<std::uint64_t>(layout.block_size - inside, end - at);
        pieces.push_back({.block = {.slice = slice.id,
                                    .index = index_in_slice,
                                    .length = BlockLength(layout, slice.size, index_in_slice)},
                          .range = {inside, inside + static_cast<std::uint32_t>(count)},
                          .file = number});
        at += count;
      }
    }
  });
}

// Merges what touches, in pages, and decides between whole and ranges.
PlannedBlock PlanBlock(std::span<const Piece> pieces, bool ranges_only) {
  PlannedBlock planned{.block = pieces[0].block};
  for (const Piece& piece : pieces) {
    const std::uint32_t begin = piece.range.begin / kPage * kPage;
    const std::uint32_t end =
        std::min(planned.block.length, (piece.range.end + kPage - 1) / kPage * kPage);
    if (!planned.ranges.empty() && begin <= planned.ranges.back().end) {
      planned.ranges.back().end = std::max(planned.ranges.back().end, end);
    } else {
      planned.ranges.push_back({begin, end});
    }
    planned.files.push_back(piece.file);
  }
  std::ranges::sort(planned.files);
  planned.files.erase(std::ranges::unique(planned.files).begin(), planned.files.end());
  for (const BlockRange& range : planned.ranges) planned.planned += range.end - range.begin;
  planned.whole = std::uint64_t{planned.planned} * (ranges_only ? 1 : 2) >= planned.block.length;
  if (planned.whole) {
    planned.ranges.clear();
    planned.planned = planned.block.length;
  }
  return planned;
}

}  // namespace

Result<WarmupStrategy> ParseWarmupStrategy(std::string_view name) {
  if (name.empty() || name == "all") return WarmupStrategy::kAll;
  if (name == "sequence") return WarmupStrategy::kSequence;
  if (name == "random") return WarmupStrategy::kRandom;
  return Fail(Code::kInvalid, "strategy \"{}\" is not sequence or random", name);
}

Result<void> WarmupSelection::Validate() const {
  if (list && paths.size() > 1)
    return Fail(Code::kInvalid, "a list's lines are relative to one path; {} are given",
                paths.size());
  if (rank && partition) return Fail(Code::kInvalid, "give a rank or a partition, not both");
  if (partitions == 0) return Fail(Code::kInvalid, "partitions is 0; give at least 1");
  if (partition && *partition >= partitions)
    return Fail(Code::kInvalid, "partition is {}; with {} partitions it is at most {}", *partition,
                partitions, partitions - 1);
  if (rank && *rank >= std::max<std::uint32_t>(1, ranks))
    return Fail(Code::kInvalid, "rank is {}; with {} ranks it is at most {}", *rank,
                std::max<std::uint32_t>(1, ranks), std::max<std::uint32_t>(1, ranks) - 1);
  return {};
}

Result<WarmupPlan> PlanWarmup(const Tree& tree, const BlockLayout& layout,
                              const WarmupSelection& selection) {
  RETURN_IF_ERROR(selection.Validate());
  WarmupPlan plan;
  std::vector<Node> samples;
  if (selection.list) {
    samples = FilesOfList(tree, selection, plan);
  } else {
    ASSIGN_OR_RETURN(samples, FilesOfPaths(tree, selection));
  }
  ASSIGN_OR_RETURN(plan.nodes, ShareOf(selection, std::move(samples)));
  std::erase(plan.nodes, Tree::kNone);
  std::vector<Piece> pieces;
  std::vector<bool> seen(tree.node_count());
  for (const Node file : plan.nodes) {
    if (seen[file]) continue;
    seen[file] = true;
    plan.file_bytes += tree.length(file);
    AddPieces(tree, layout, file, static_cast<std::uint32_t>(plan.files++), pieces);
  }
  plan.file_blocks.resize(plan.files);
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.block, a.range.begin) < std::tie(b.block, b.range.begin);
  });
  for (std::size_t at = 0; at < pieces.size();) {
    std::size_t end = at + 1;
    while (end < pieces.size() && pieces[end].block == pieces[at].block) ++end;
    plan.blocks.push_back(
        PlanBlock(std::span(pieces).subspan(at, end - at), selection.ranges_only));
    plan.cache_bytes += plan.blocks.back().planned;
    for (const std::uint32_t file : plan.blocks.back().files) ++plan.file_blocks[file];
    at = end;
  }
  return plan;
}

namespace {

// Calls fn(path, node) for all files of the tree.
template <class Fn>
void ForEachPath(const Tree& tree, Node node, const std::string& path, const Fn& fn) {
  if (tree.type(node) == FileType::kFile) return fn(path, node);
  for (std::size_t i = 0; i < tree.child_count(node); ++i) {
    const Tree::Child child = tree.child(node, i);
    ForEachPath(tree, child.node, path + "/" + std::string(child.name), fn);
  }
}

}  // namespace

std::vector<WarmupPlan::Failure> FailedFiles(const Warmup& warmup, const BlockLayout& layout,
                                             const WarmupReport& report) {
  std::vector<WarmupPlan::Failure> failed;
  if (report.failures.empty()) return failed;
  std::map<BlockId, const Status*> blocks;
  for (const auto& failure : report.failures) blocks.emplace(failure.block, &failure.error);
  std::vector<bool> planned(warmup.tree.node_count());
  for (const Node node : warmup.plan.nodes) planned[node] = true;
  ForEachPath(warmup.tree, RootOf(warmup.tree), warmup.base,
              [&](const std::string& path, Node node) {
                if (!planned[node]) return;
                std::vector<Piece> pieces;
                AddPieces(warmup.tree, layout, node, 0, pieces);
                for (const Piece& piece : pieces) {
                  const auto found = blocks.find(piece.block);
                  if (found == blocks.end()) continue;
                  failed.push_back({path, *found->second});
                  return;
                }
              });
  return failed;
}

}  // namespace paddleop::volume::data
