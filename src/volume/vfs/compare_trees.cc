#include <vector>

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

// Directories of the old state that hold a name of something that has changed are settled.
void SettleNames(const Tree& before, const std::vector<bool>& changed, ChangeListener& listener) {
  for (NodeIndex directory = 0; directory < before.node_count(); ++directory) {
    if (before.type(directory) != FileType::kDirectory) continue;
    const std::size_t count = before.child_count(directory);
    for (std::size_t i = 0; i < count; ++i) {
      if (!changed[before.child(directory, i).node]) continue;
      listener.OnEntryChanged(before.ino(directory), kNobodysName);
      break;
    }
  }
}

}  // namespace

RefreshDone CompareTrees(const Tree& before, const Tree& after, ChangeListener& listener) {
  RefreshDone done{.nodes = after.node_count()};
  std::vector<bool> changed(before.node_count());
  bool some = false;
  for (NodeIndex a = 0; a < before.node_count(); ++a) {
    const NodeIndex b = after.Find(before.ino(a));
    if (b == Tree::kNone) {
      // Its names have changed. Whoever has it open goes on with what the kernel knows of it.
      ++done.inodes;
      continue;
    }
    changed[a] = before.attr(a) != after.attr(b);
    if (before.type(a) == FileType::kDirectory && after.type(b) == FileType::kDirectory) {
      if (CompareNames(before, a, after, b, listener, done)) changed[a] = true;
    } else if (!changed[a] && before.type(a) == FileType::kFile &&
               !before.SameRecords(a, after, b)) {
      // A compaction changes where the bytes are, not what they are; but a write within the clock's
      // grain looks the same from here.
      changed[a] = true;
    }
    if (!changed[a]) continue;
    some = true;
    ++done.inodes;
  }
  // Somebody who was answered from the old state may still be about to make the kernel's inode, for
  // which the kernel has nothing to forget yet. So names first, then inodes.
  if (some) SettleNames(before, changed, listener);
  for (NodeIndex a = 0; a < before.node_count(); ++a) {
    if (changed[a]) listener.OnInodeChanged(before.ino(a));
  }
  for (NodeIndex b = 0; b < after.node_count(); ++b) {
    // It may have been in an earlier state, and somebody may have it open since then.
    if (before.Find(after.ino(b)) == Tree::kNone) listener.OnInodeChanged(after.ino(b));
  }
  done.changed = done.entries > 0 || done.inodes > 0;
  return done;
}

}  // namespace paddleop::volume
