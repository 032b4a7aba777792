#include "volume/meta/tree_paths.h"

namespace paddleop::volume {
namespace {

constexpr int kDeepest = 512;

}  // namespace

TreePaths::TreePaths(const Tree& tree) : places_(tree.node_count()) {
  for (Tree::NodeIndex node = 0; node < tree.node_count(); ++node) {
    if (tree.type(node) != FileType::kDirectory) continue;
    const std::size_t count = tree.child_count(node);
    for (std::size_t i = 0; i < count; ++i) {
      // Of a file with several names, that which it says is its parent's.
      const Tree::NodeIndex child = tree.child(node, i).node;
      if (tree.attr(child).parent == tree.ino(node)) places_[child] = static_cast<std::uint32_t>(i);
    }
  }
}

std::string TreePaths::Of(const Tree& tree, Tree::NodeIndex node) const {
  std::string path;
  for (int depth = 0; tree.ino(node) != tree.root(); ++depth) {
    const Tree::NodeIndex above = tree.Find(tree.attr(node).parent);
    if (above == Tree::kNone || depth == kDeepest) return "";
    if (places_[node] >= tree.child_count(above)) return "";
    const Tree::Child child = tree.child(above, places_[node]);
    if (child.node != node) return "";  // its parent is not in the tree, or not known
    path.insert(0, path.empty() ? "" : "/");
    path.insert(0, child.name);
    node = above;
  }
  return path.empty() ? "." : path;
}

}  // namespace paddleop::volume
