#include "volume/meta/testing/tree_model.h"

#include <algorithm>

namespace paddleop::volume::testing {

bool TreeModel::Make(const NodePtr& dir, const std::string& name, FileType type,
                     std::string target) {
  if (dir->children.contains(name)) return false;
  auto node = std::make_shared<Node>();
  node->type = type;
  node->links = 1;
  node->target = std::move(target);
  dir->children[name] = node;
  return true;
}

bool TreeModel::Link(const NodePtr& file, const NodePtr& dir, const std::string& name) {
  if (file->type == FileType::kDirectory || dir->children.contains(name)) return false;
  dir->children[name] = file;
  ++file->links;
  return true;
}

bool TreeModel::Remove(const NodePtr& dir, const std::string& name, bool directory) {
  const auto found = dir->children.find(name);
  if (found == dir->children.end()) return false;
  const NodePtr node = found->second;
  if ((node->type == FileType::kDirectory) != directory) return false;
  if (directory && !node->children.empty()) return false;
  --node->links;
  dir->children.erase(found);
  return true;
}

bool TreeModel::Contains(const NodePtr& tree, const NodePtr& node) {
  if (tree == node) return true;
  return std::any_of(tree->children.begin(), tree->children.end(),
                     [&](const auto& child) { return Contains(child.second, node); });
}

bool TreeModel::Rename(const NodePtr& from, const std::string& old_name, const NodePtr& to,
                       const std::string& new_name, RenameMode mode) {
  const auto source = from->children.find(old_name);
  if (source == from->children.end()) return false;
  const NodePtr node = source->second;
  const auto target = to->children.find(new_name);
  const NodePtr old = target == to->children.end() ? nullptr : target->second;
  if (mode == RenameMode::kNoReplace && old) return false;
  if (mode == RenameMode::kExchange && !old) return false;
  if (old == node) return true;
  if (node->type == FileType::kDirectory && from != to && Contains(node, to)) return false;
  if (mode == RenameMode::kExchange) {
    if (old->type == FileType::kDirectory && from != to && Contains(old, from)) return false;
    from->children[old_name] = old;
    to->children[new_name] = node;
    return true;
  }
  if (old) {
    const bool directory = old->type == FileType::kDirectory;
    if (directory != (node->type == FileType::kDirectory)) return false;
    if (directory && !old->children.empty()) return false;
    --old->links;
  }
  from->children.erase(old_name);
  to->children[new_name] = node;
  return true;
}

void TreeModel::Write(const NodePtr& file, std::size_t at, std::uint64_t slice, std::size_t size) {
  if (file->bytes.size() < at + size) file->bytes.resize(at + size);
  for (std::size_t i = 0; i < size; ++i) {
    file->bytes[at + i] = {.slice = slice, .offset = static_cast<std::uint32_t>(i)};
  }
}

void TreeModel::Truncate(const NodePtr& file, std::size_t length) { file->bytes.resize(length); }

void TreeModel::Zero(const NodePtr& file, std::size_t at, std::size_t size) {
  const std::size_t end = std::min(file->bytes.size(), at + size);
  for (std::size_t i = at; i < end; ++i) file->bytes[i] = {};
}

void TreeModel::Copy(const NodePtr& from, std::size_t at, const NodePtr& to, std::size_t target,
                     std::size_t size) {
  if (at >= from->bytes.size()) return;
  size = std::min(size, from->bytes.size() - at);
  const std::vector<Byte> copied(from->bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                 from->bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
  if (to->bytes.size() < target + size) to->bytes.resize(target + size);
  std::copy(copied.begin(), copied.end(), to->bytes.begin() + static_cast<std::ptrdiff_t>(target));
}

}  // namespace paddleop::volume::testing
