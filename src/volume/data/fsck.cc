#include "volume/data/fsck.h"

#include <bit>
#include <unordered_map>

#include "volume/data/inventory.h"

namespace paddleop::volume::data {
namespace {

class Checker {
 public:
  Checker(const Context& ctx, MetaStore& meta, object::ObjectStore& objects,
          const BlockLayout& layout, const FsckOptions& options)
      : ctx_(ctx), meta_(meta), objects_(objects), layout_(layout), options_(options) {}

  Result<FsckReport> Run(bool check_usage) {
    ASSIGN_OR_RETURN(tree_, meta_.LoadTree(ctx_, kRootIno, false));
    ASSIGN_OR_RETURN(slices_, TakeInventory(ctx_, meta_));
    RETURN_IF_ERROR(LookForBlocks());
    NamePaths();
    CheckSlices();
    RETURN_IF_ERROR(CheckDirectories(check_usage));
    return std::move(report_);
  }

 private:
  void Add(FsckProblem::Kind kind, std::string path, std::string detail) {
    ++report_.problem_count;
    if (report_.problems.size() < options_.max_problems) {
      report_.problems.push_back({kind, std::move(path), std::move(detail)});
    }
  }

  Result<void> LookForBlocks() {
    return ForEachBlockObject(
        ctx_, objects_,
        [&](const std::optional<BlockId>& seen, const object::ObjectInfo& object) -> Result<void> {
          if (!seen) return {};
          const BlockId& block = *seen;
          const auto found = slices_.find(block.slice);
          if (found == slices_.end()) return {};
          SliceFacts& facts = found->second;
          // A block of another length is not the one the slice has.
          if (BlockLength(layout_, facts.size, block.index) != block.length || block.length == 0)
            return {};
          facts.blocks_seen |= std::uint64_t{1} << (block.index % 64);
          if (BlockCount(layout_, facts.size) > 64) ++extra_blocks_[block.slice];
          ++report_.blocks;
          report_.bytes += object.size;
          return {};
        });
  }

  // Paths of the files that the report may name.
  void NamePaths() {
    std::vector<std::pair<Tree::NodeIndex, std::string>> todo = {{tree_.Find(kRootIno), "/"}};
    while (!todo.empty()) {
      auto [directory, path] = std::move(todo.back());
      todo.pop_back();
      ++report_.directories;
      for (std::size_t i = 0; i < tree_.child_count(directory); ++i) {
        const Tree::Child child = tree_.child(directory, i);
        if (child.node == Tree::kNone) {
          Add(FsckProblem::Kind::kDanglingEntry, path + std::string(child.name),
              "the inode is missing");
          continue;
        }
        if (tree_.type(child.node) == FileType::kDirectory) {
          todo.emplace_back(child.node, path + std::string(child.name) + "/");
        } else {
          ++report_.files;
        }
      }
    }
  }

  std::string PathOf(Ino ino) const {
    std::string path;
    for (Ino at = ino; at != kRootIno;) {
      const auto node = tree_.Find(at);
      if (node == Tree::kNone) return fmt::format("inode {}", ToInt(ino));
      const Ino parent = tree_.attr(node).parent;
      const auto directory = tree_.Find(parent);
      if (directory == Tree::kNone) return fmt::format("inode {}", ToInt(ino));
      std::string name = "?";
      for (std::size_t i = 0; i < tree_.child_count(directory); ++i) {
        const auto child = tree_.child(directory, i);
        if (child.node == node) name = child.name;
      }
      path.insert(0, "/" + name);
      at = parent;
    }
    return path.empty() ? "/" : path;
  }

  void CheckSlices() {
    for (const auto& [id, facts] : slices_) {
      if (facts.records == 0) continue;  // garbage on its way out, gc's business
      ++report_.slices;
      const std::uint32_t blocks = BlockCount(layout_, facts.size);
      const auto extra = extra_blocks_.find(id);
      const std::uint32_t seen = blocks > 64
                                     ? (extra == extra_blocks_.end() ? 0 : extra->second)
                                     : static_cast<std::uint32_t>(std::popcount(facts.blocks_seen));
      if (seen < blocks) {
        Add(FsckProblem::Kind::kMissingObject, PathOf(facts.example),
            fmt::format("slice {} of {} bytes: {} of {} blocks are not in the store", id,
                        facts.size, blocks - seen, blocks));
      }
      const std::int64_t stored = facts.counted ? facts.references : 1;
      const std::int64_t counted = std::int64_t{facts.records} + facts.delayed;
      if (stored == counted) continue;
      Add(stored < counted ? FsckProblem::Kind::kTooFewReferences
                           : FsckProblem::Kind::kTooManyReferences,
          PathOf(facts.example),
          fmt::format("slice {}: {} references on record, {} records refer to it", id, stored,
                      counted));
    }
  }

  Result<void> CheckDirectories(bool check_usage) {
    for (Tree::NodeIndex node = 0; node < tree_.node_count(); ++node) {
      if (tree_.type(node) != FileType::kDirectory || IsTrash(tree_.ino(node))) continue;
      DirUsage usage;
      std::uint32_t directories = 0;
      for (std::size_t i = 0; i < tree_.child_count(node); ++i) {
        const auto child = tree_.child(node, i).node;
        if (child == Tree::kNone) continue;
        usage += UsageOf(tree_.attr(child));
        if (tree_.type(child) == FileType::kDirectory) ++directories;
      }
      const Attr attr = tree_.attr(node);
      if (attr.nlink != directories + 2) {
        Add(FsckProblem::Kind::kWrongLinkCount, PathOf(tree_.ino(node)),
            fmt::format("link count {} with {} sub-directories", attr.nlink, directories));
      }
      if (!check_usage) continue;
      auto stored = meta_.GetDirUsage(ctx_, tree_.ino(node));
      if (!stored && !IsNotFound(stored.error())) return std::unexpected(std::move(stored).error());
      // Statistics come with the first entry.
      if (!stored && usage.IsZero()) continue;
      if (!stored || *stored != usage) {
        Add(FsckProblem::Kind::kWrongUsage, PathOf(tree_.ino(node)),
            stored ? fmt::format("on record {} bytes in {} entries, counted {} in {}",
                                 stored->length, stored->inodes, usage.length, usage.inodes)
                   : "no statistics on record");
      }
    }
    return {};
  }

  const Context& ctx_;
  MetaStore& meta_;
  object::ObjectStore& objects_;
  const BlockLayout layout_;
  const FsckOptions options_;
  Tree tree_;
  Inventory slices_;
  std::unordered_map<std::uint64_t, std::uint32_t>
      extra_blocks_;  // of slices with more than 64 blocks
  FsckReport report_;
};

}  // namespace

Result<FsckReport> Fsck(const Context& ctx, MetaStore& meta, object::ObjectStore& objects,
                        const BlockLayout& layout, bool check_usage, const FsckOptions& options) {
  return Checker(ctx, meta, objects, layout, options).Run(check_usage);
}

std::string_view KindName(FsckProblem::Kind kind) {
  switch (kind) {
    case FsckProblem::Kind::kMissingObject:
      return "MissingObject";
    case FsckProblem::Kind::kTooFewReferences:
      return "TooFewReferences";
    case FsckProblem::Kind::kTooManyReferences:
      return "TooManyReferences";
    case FsckProblem::Kind::kWrongLinkCount:
      return "WrongLinkCount";
    case FsckProblem::Kind::kWrongUsage:
      return "WrongUsage";
    case FsckProblem::Kind::kDanglingEntry:
      return "DanglingEntry";
  }
  return "Unknown";
}

}  // namespace paddleop::volume::data
