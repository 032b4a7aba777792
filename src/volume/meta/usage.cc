#include "volume/meta/internal/store.h"

namespace paddleop::volume {

Result<DirUsage> EngineMetaStore::GetDirUsage(const Context& ctx, Ino ino) {
  ASSIGN_OR_RETURN(const auto usage, engine_->GetDirUsage(ctx, ino));
  if (!usage) return Fail(Code::kNotFound, "directory {} has no statistics on record", ToInt(ino));
  return *usage;
}

Result<DirUsage> EngineMetaStore::SyncDirUsage(const Context& ctx, Ino ino) {
  RETURN_IF_ERROR(CheckWritable());
  ASSIGN_OR_RETURN(const Attr attr, GetAttr(ctx, ino));
  if (attr.type != FileType::kDirectory) {
    return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(ino));
  }
  return engine_->SyncDirUsage(ctx, ino);
}

// Counts names, as quotas do: a file with two names counts twice.
Result<TreeSummary> EngineMetaStore::Summarize(const Context& ctx, Ino ino) {
  ASSIGN_OR_RETURN(const Tree tree, LoadTree(ctx, ino, /*with_slices=*/false));
  TreeSummary summary;
  const auto add = [&](Tree::NodeIndex node) {
    if (tree.type(node) == FileType::kDirectory) {
      ++summary.directories;
      summary.space += 4096;
      return;
    }
    ++summary.files;
    const bool file = tree.type(node) == FileType::kFile;
    summary.length += file ? tree.length(node) : 0;
    summary.space += file ? ChargedSpace(tree.length(node)) : 4096;
  };
  std::vector<Tree::NodeIndex> queue = {tree.Find(ino)};
  add(queue.front());
  while (!queue.empty()) {
    const Tree::NodeIndex directory = queue.back();
    queue.pop_back();
    for (std::size_t i = 0; i < tree.child_count(directory); ++i) {
      const Tree::NodeIndex child = tree.child(directory, i).node;
      add(child);
      if (tree.type(child) == FileType::kDirectory) queue.push_back(child);
    }
  }
  return summary;
}

Result<DirQuota> EngineMetaStore::SetDirQuota(const Context& ctx, Ino ino, std::int64_t max_space,
                                              std::int64_t max_inodes) {
  RETURN_IF_ERROR(CheckWritable());
  if (!dir_stats()) {
    return Fail(Code::kNotSupported, "quotas need directory statistics: set DirStats first");
  }
  if (max_space < 0 || max_inodes < 0) return Fail(Code::kInvalid, "a quota is not negative");
  ASSIGN_OR_RETURN(const Attr attr, GetAttr(ctx, ino));
  if (attr.type != FileType::kDirectory) {
    return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(ino));
  }
  ASSIGN_OR_RETURN(const TreeSummary summary, Summarize(ctx, ino));
  // The directory itself does not count.
  const DirQuota quota{
      .max_space = max_space,
      .max_inodes = max_inodes,
      .used_space = static_cast<std::int64_t>(summary.space) - 4096,
      .used_inodes = static_cast<std::int64_t>(summary.files + summary.directories) - 1};
  RETURN_IF_ERROR(engine_->PutDirQuota(ctx, ino, quota));
  RETURN_IF_ERROR(quotas_.Refresh(ctx));
  return quota;
}

Result<DirQuota> EngineMetaStore::GetDirQuota(const Context& ctx, Ino ino) {
  ASSIGN_OR_RETURN(const auto quotas, engine_->ListDirQuotas(ctx));
  for (const auto& [dir, quota] : quotas) {
    if (dir == ino) return quota;
  }
  return Fail(Code::kNotFound, "directory {} has no quota", ToInt(ino));
}

Result<void> EngineMetaStore::RemoveDirQuota(const Context& ctx, Ino ino) {
  RETURN_IF_ERROR(CheckWritable());
  RETURN_IF_ERROR(engine_->DeleteDirQuota(ctx, ino));
  return quotas_.Refresh(ctx);
}

}  // namespace paddleop::volume
