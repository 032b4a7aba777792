#include "volume/vfs/data_set.h"

namespace paddleop::volume {
namespace {

using NodeIndex = Tree::NodeIndex;

// Merges the sorted names of a directory in both states. True if something differs.
bool CompareNames(const Tree& before, NodeIndex old_dir, const Tree& after, NodeIndex new_dir,
                  ChangeListener& listener, RefreshDone& done) {
  const Ino parent = after.ino(new_dir);
  const std::size_t old_count = before.child_count(old_dir), new_count = after.child_count(new_dir);
  bool differs = false;
  const auto changed = [&](std::string_view name) {
    listener.OnEntryChanged(parent, name);
    ++done.entries;
    differs = true;
  };
  for (std::size_t i = 0, k = 0; i < old_count || k < new_count;) {
    const auto a = i < old_count ? before.child(old_dir, i) : Tree::Child{};
    const auto b = k < new_count ? after.child(new_dir, k) : Tree::Child{};
    if (k >= new_count || (i < old_count && a.name < b.name)) {
      changed(a.name);
      ++i;
    } else if (i >= old_count || b.name < a.name) {
      changed(b.name);
      ++k;
    } else {
      if (before.ino(a.node) != after.ino(b.node)) changed(b.name);
      ++i;
      ++k;
    }
  }
  return differs;
}

bool SameData(const Tree& before, NodeIndex a, const Tree& after, NodeIndex b) {
  const std::uint64_t chunks = (after.length(b) + kChunkSize - 1) / kChunkSize;
  for (std::uint32_t index = 0; index < chunks; ++index) {
    if (before.Slices(a, index) != after.Slices(b, index)) return false;
  }
  return true;
}

}  // namespace

RefreshDone CompareTrees(const Tree& before, const Tree& after, ChangeListener& listener) {
  RefreshDone done{.nodes = after.node_count()};
  for (NodeIndex a = 0; a < before.node_count(); ++a) {
    const Ino ino = before.ino(a);
    const NodeIndex b = after.Find(ino);
    if (b == Tree::kNone) {
      // Its names have changed. Whoever has it open goes on with what the kernel knows of it.
      ++done.inodes;
      continue;
    }
    bool changed = before.attr(a) != after.attr(b);
    if (before.type(a) == FileType::kDirectory && after.type(b) == FileType::kDirectory) {
      if (CompareNames(before, a, after, b, listener, done)) changed = true;
    } else if (!changed && before.type(a) == FileType::kFile && !SameData(before, a, after, b)) {
      // A compaction changes where the bytes are, not what they are; but a write within the
      // clock's grain looks the same from here.
      changed = true;
    }
    if (!changed) continue;
    listener.OnInodeChanged(ino);
    ++done.inodes;
  }
  for (NodeIndex b = 0; b < after.node_count(); ++b) {
    // It may have been in an earlier state, and somebody may have it open since then.
    if (before.Find(after.ino(b)) == Tree::kNone) listener.OnInodeChanged(after.ino(b));
  }
  done.changed = done.entries > 0 || done.inodes > 0;
  return done;
}

}  // namespace paddleop::volume
